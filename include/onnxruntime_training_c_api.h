#include "tessera/c_api_training.h"
