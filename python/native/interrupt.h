// Work of the library that a person or a clock can stop.
#pragma once
#include <functional>

#include "api.h"

namespace tessera::python {

// Says which thread gets Python's signals, by its identifier there. Called when the module is loaded.
void watch_signals(unsigned long main_thread);

// How work that goes on in the library is asked to stop, and how that is taken back. `ask` is safe in a signal handler.
struct Stop {
  void (*ask)(void* work);
  void (*take_back)(void* work);
  void* work;
};

// Does `work`, which gives a status, without the interpreter's lock, and throws what the status says. Ctrl-C, where
// this is the thread that gets it, asks for a stop, and then KeyboardInterrupt is thrown, or what the program's own
// handler raises; where that raises nothing, the work is done again from the start. After `timeout` seconds (0: never)
// a stop is asked for too, and TimeoutError is thrown.
void do_stoppable(const Stop& stop, double timeout, const std::function<OrtStatus*()>& work);

// Whether this is the thread that gets signals.
bool hears_signals();

// The terminate flag of run options.
Stop stop_of(OrtRunOptions* options);

}  // namespace tessera::python
