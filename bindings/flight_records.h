// Where this process's communicators write what they have called last, and upon which signal.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "bindings.h"
#include "square/communicator.h"

namespace square::python {

// square/flight_record.py says where; this knows which communicators there are. Thread-safe.
class FlightRecords {
 public:
  // Never destroyed: a signal may come while the process ends.
  static FlightRecords& instance();

  // The signal concerns the communicator until the result is let go, which waits for a record that is being
  // written. Until then the communicator must live. With the interpreter's lock.
  [[nodiscard]] std::shared_ptr<void> add(Communicator& communicator);

 private:
  // Without the interpreter's lock.
  std::shared_ptr<void> add(Communicator& communicator, const std::string& path, bool follows);
  // From now on a thread writes all records upon SIGUSR2, and before SIGTERM ends the process. It needs no
  // lock of the interpreter, so the program may be stuck anywhere. A handler of the program stays.
  void listen();
  void run(int descriptor);
  void write_all(FlightRecordReason reason, Duration patience);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<FlightRecordFolder>> folders_;
  std::set<Communicator*> communicators_;  // whose records the signals concern
  bool is_listening_ = false;
  int asked_by_ = 0;  // the signal; 0: the program has a handler of its own
};

}  // namespace square::python
