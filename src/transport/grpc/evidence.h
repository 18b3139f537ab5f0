// What the other end of a link has shown of itself.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "square/identity.h"

namespace square::rpc {

// Thread-safe.
class Evidence {
 public:
  void note(std::optional<PeerCertificate> shown) {
    const std::lock_guard lock(mutex_);
    shown_ = std::move(shown);
  }
  // Whether it is believed still; OK where nothing was shown.
  [[nodiscard]] Status check(const Identity& self) const {
    const std::lock_guard lock(mutex_);
    return shown_ ? self.check(*shown_, {}, "") : Status::ok();
  }

 private:
  mutable std::mutex mutex_;
  std::optional<PeerCertificate> shown_;
};

}  // namespace square::rpc
