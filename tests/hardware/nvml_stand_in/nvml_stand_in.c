/* A stand-in for NVIDIA's libnvidia-ml.so.1, for tests only; state_file.h says what it answers. */
#include "state_file.h"
#include "card_calls.h"
#include "health_calls.h"
