// Who asked a controller for what it may not have.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>

#include "base/seldom.h"
#include "square/status.h"

namespace square::controller {

// Thread-safe.
class RefusalLog {
 public:
  // A line that names who has asked, by certificate and address, where `answer` says that they had no right
  // to it or have too much already.
  void note(const grpc::CallbackServerContext& context, std::string_view asked, const Status& answer);
  // A line about an event that this release does not know.
  void note_unknown(const std::string& node);

 private:
  Seldom seldom_;
};

}  // namespace square::controller
