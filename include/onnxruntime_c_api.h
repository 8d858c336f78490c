#include "tessera/c_api.h"
