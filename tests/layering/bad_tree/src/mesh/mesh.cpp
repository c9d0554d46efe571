#include "comm/mpi/communicator.hpp"  // another room's private header: refused
#include "sft/comm/group.hpp"
