// The controller's list of revoked certificates, as the operator edits it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "square/identity.h"

namespace square::controller {

// Reads Identity::kRevokedFile of the identity's folder now and then, and tells the identity and `changed`
// what is in it when that is something else. A file that cannot be read, or is none, changes nothing and is
// warned of.
class RevocationWatch {
 public:
  // Nodes are to have heard within a second.
  static constexpr std::chrono::milliseconds kInterval{250};

  // `changed` is called from the watch's thread, and before the constructor returns where there is a list.
  RevocationWatch(std::shared_ptr<Identity> identity,
                  std::function<void(const std::vector<Revocation>&)> changed);
  ~RevocationWatch();
  RevocationWatch(const RevocationWatch&) = delete;
  RevocationWatch& operator=(const RevocationWatch&) = delete;

 private:
  void look();
  void run();

  const std::shared_ptr<Identity> identity_;
  const std::function<void(const std::vector<Revocation>&)> changed_;
  std::string text_;     // as it was read last
  std::string trouble_;  // warned of last
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace square::controller
