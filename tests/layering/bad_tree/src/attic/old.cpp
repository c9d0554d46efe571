#include "sft/apps/old.hpp"
