// What must hold of a random model, and the smallest model of which it still does not.
#pragma once
#include <string>

#include "random_model.h"

namespace tessera::testing {

struct Verdict {
  bool valid = true;    // every node runs on its own
  std::string failure;  // "kind: what"; empty if all is well
  int runs = 0;         // of planned sessions

  bool failed() const { return valid && !failure.empty(); }
  std::string kind() const { return failure.substr(0, failure.find(':')); }
};

// Planned runs, with 1 to 3 threads, again, and with other sizes of the symbolic dimensions, agree bit for bit with
// the interpretation; the inferred facts agree with the values.
Verdict check_model(const RandomModel& model);
// The same in a process of its own: a crash is a failure too.
Verdict check_apart(const RandomModel& model);

// A smaller model that fails in the same way.
RandomModel shrink(RandomModel model, Verdict (*check)(const RandomModel&));

// The model in textual syntax, and the values of its inputs.
std::string show(const RandomModel& model);

}  // namespace tessera::testing
