#include <mpi.h>

#include "sft/comm/group.hpp"
