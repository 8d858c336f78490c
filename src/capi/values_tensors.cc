#include "capi/topics.h"

namespace tessera::capi {

void fill_values(OrtApi&) {}

}  // namespace tessera::capi
