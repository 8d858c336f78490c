#include "capi/topics.h"

namespace tessera::capi {

void fill_values(OrtApi& api) { fill_container(api); }

}  // namespace tessera::capi
