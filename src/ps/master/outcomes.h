// What workers are told of their pushes.
#pragma once

#include <cstdint>
#include <string>

#include "ps/master/parts.h"

namespace square::ps {

// Not thread-safe.
class Outcomes {
 public:
  explicit Outcomes(MasterParts& parts) : parts_(parts) {}

  void tell(const std::string& worker, std::uint64_t number, v1::PsPushOutcome::Kind kind,
            const std::string& reason = {});
  // A version has it, or was made with it left out.
  void tell_committed(const v1::PsPushed& pushed, std::uint64_t version);
  // Nothing was made of it: its worker carries it on. Where that is gone, so is what it did.
  void skip(const Push& push, const Status& reason);
  // To all that wait for a server that does not answer, once for each push.
  void tell_doubts();

 private:
  MasterParts& parts_;
};

}  // namespace square::ps
