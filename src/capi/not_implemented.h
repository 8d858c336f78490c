// Stand-ins for the slots of the C ABI that have no implementation: every slot of every table can be called.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "capi/status.h"
#include "tessera/c_api.h"
#include "tessera/c_api_training.h"

namespace tessera::capi {

// A string literal as a template argument.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

// A status with ORT_NOT_IMPLEMENTED and a sentence that names the function.
OrtStatus* not_implemented_status(const char* table, const char* function) noexcept;

// The name of a table; slots.inc has them.
template <class Table>
inline constexpr const char* kTableName = nullptr;

// A void function cannot report; its results, if it has any, are set to zero so that the client reads no garbage.
template <class T>
void clear_result(T argument) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    if constexpr (std::is_scalar_v<Target> && !std::is_const_v<Target>) {
      if (argument) *argument = Target{};
    }
  }
}

// What a missing function with this result does: a status says so, other results are null or zero.
template <class Table, Name name, class R, class... A>
R stand_in(A... arguments) noexcept {
  if constexpr (std::is_same_v<R, OrtStatus*>) {
    return not_implemented_status(kTableName<Table>, name.text);
  } else if constexpr (std::is_void_v<R>) {
    (clear_result(arguments), ...);
  } else {
    return R{};
  }
}

template <Name name, class Table, class R, class... A>
constexpr auto choose_stand_in(R (*Table::*)(A...)) {
  return &stand_in<Table, name, R, A...>;
}
template <Name name, class Table, class R, class... A>
constexpr auto choose_stand_in(R (*Table::*)(A...) noexcept) {
  return &stand_in<Table, name, R, A...>;
}

// A value for the slot `Slot`: not_implemented<&OrtApi::CreateEnv, "CreateEnv">.
template <auto Slot, Name name>
inline constexpr auto not_implemented = choose_stand_in<name>(Slot);

// A whole table of them: not_implemented_table<OrtApi>. slots.inc has one for each table the library offers.
template <class Table>
inline constexpr Table not_implemented_table = nullptr;

}  // namespace tessera::capi

#include "capi/slots.inc"
