// OrtCompileApi: writes the optimised model, which loads without being optimised again.
#pragma once
#include "tessera/c_api.h"

namespace tessera::capi {

const OrtCompileApi* compile_api() noexcept;

}  // namespace tessera::capi
