// numpy arrays over memory of the library and values over memory of numpy.
#pragma once
#include "api.h"

namespace tessera::python {

// Loads numpy's own table of functions; once, before the others.
void import_numpy();

// A tensor that reads an array in place. Null where that cannot be: anything but a contiguous, aligned array in the
// machine's byte order of a type with a number, or of another type than `wanted` (0: any).
Handle<OrtValue> tensor_over(nb::handle array, int wanted = 0);

// An array over the memory of a tensor, which it takes and keeps alive. Null, and the tensor left, where its type is
// none of numpy's or was not added.
nb::object array_over(Handle<OrtValue>& tensor);

// Says which numpy type holds the elements of a type of the C ABI: one that another package added to numpy.
void add_element_type(nb::handle dtype, int element);

}  // namespace tessera::python
