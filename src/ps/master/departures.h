// Members that go, are lost, or are not heard of any more.
#pragma once

#include <string>

#include "ps/master/outcomes.h"

namespace square::ps {

// Not thread-safe.
class Departures {
 public:
  Departures(MasterParts& parts, Outcomes& outcomes) : parts_(parts), outcomes_(outcomes) {}

  // Its line is gone. What all servers have of a worker stays; what is on its way does not.
  void lose(WorkerEntry& worker);
  void lose(ServerEntry& server, const Status& reason);
  // It takes part no more, and others may have its chunks.
  void remove(const std::string& worker);
  // But for those of a push that all servers have.
  void release_chunks(const std::string& worker);
  void look_for_the_silent();

 private:
  MasterParts& parts_;
  Outcomes& outcomes_;
};

}  // namespace square::ps
