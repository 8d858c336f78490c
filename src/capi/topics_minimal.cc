// The topics of small libraries: no custom operators, other devices, adapters, bindings, initializers of the client,
// asynchronous runs, and no extension table; sequences and maps where the operators make them. Slots of the topics that
// are left out stay stand-ins.
#include <cstddef>
#include <type_traits>

#include "capi/custom_op.h"
#include "capi/topics.h"
#include "tessera/c_api_training.h"
#include "tessera/extension.h"

// What slots.inc asks for, without the names: all stand-ins with one kind of result are the same code, which the linker
// keeps once.
namespace tessera::capi {

static OrtStatus* absent() noexcept {
  return make_status(ORT_NOT_IMPLEMENTED, "this function is not available in a minimal library; libtessera has it");
}

struct Unnamed {
  template <size_t N>
  constexpr Unnamed(const char (&)[N]) {}
};

template <class R, class... A>
R stand_in(A...) noexcept {
  if constexpr (std::is_same_v<R, OrtStatus*>)
    return absent();
  else if constexpr (!std::is_void_v<R>)
    return R{};
}

template <class Table, class R, class... A>
constexpr auto choose_stand_in(R (*Table::*)(A...)) {
  return &stand_in<R, A...>;
}
template <class Table, class R, class... A>
constexpr auto choose_stand_in(R (*Table::*)(A...) noexcept) {
  return &stand_in<R, A...>;
}

template <auto Slot, Unnamed>
inline constexpr auto not_implemented = choose_stand_in(Slot);
template <class Table>
inline constexpr const char* kTableName = nullptr;
template <class Table>
inline constexpr Table not_implemented_table = nullptr;

}  // namespace tessera::capi

#include "capi/slots.inc"

namespace tessera::capi {

OrtApi stand_ins() { return not_implemented_table<OrtApi>; }

void fill_topics(OrtApi& api) {
  fill_allocator(api);
  fill_values(api);
  fill_env(api);
  fill_metadata(api);
  fill_options(api);
  fill_run(api);
  fill_session(api);
  fill_string_tensor(api);
  fill_type_info(api);
  fill_value(api);
}

Result<CustomOps> custom_ops_of(const OrtSessionOptions&, std::shared_ptr<const Logger>) { return CustomOps{}; }

}  // namespace tessera::capi

const TesseraApi* ORT_API_CALL TesseraGetApi(uint32_t) noexcept { return nullptr; }
