#include "controller/grpc/revocation_watch.h"

#include <pthread.h>

#include <filesystem>
#include <utility>

#include "base/log.h"
#include "trust/files.h"
#include "trust/revocations.h"

namespace square::controller {

RevocationWatch::RevocationWatch(std::shared_ptr<Identity> identity,
                                 std::function<void(const std::vector<Revocation>&)> changed)
    : identity_(std::move(identity)), changed_(std::move(changed)) {
  if (!identity_ || !identity_->name()) return;  // others are known by fingerprints: nothing to revoke
  look();
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "square-revoked");
    run();
  });
}

RevocationWatch::~RevocationWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RevocationWatch::run() {
  std::unique_lock lock(mutex_);
  while (!woken_.wait_for(lock, kInterval, [this] { return is_stopping_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void RevocationWatch::look() {
  const std::string path = (std::filesystem::path(identity_->folder()) / Identity::kRevokedFile).string();
  auto text = trust::read_file(path, trust::Secrecy::kPublic);
  // Taken away, it says what an empty one says.
  if (text.status().code() == StatusCode::kNotFound) text = std::string();
  if (text.is_ok() && *text == text_) return;
  auto revoked =
      text.is_ok() ? trust::parse_revocations(*text) : Result<std::vector<Revocation>>(text.status());
  if (!revoked.is_ok()) {
    if (std::exchange(trouble_, revoked.status().message()) != trouble_) {
      log(LogLevel::kError, "controller", "{}: {}; what was revoked before stays so", path, trouble_);
    }
    return;
  }
  trouble_.clear();
  text_ = *std::move(text);
  log(LogLevel::kInfo, "controller", "{} certificates' names are revoked", revoked->size());
  identity_->set_revoked(*revoked);
  changed_(*revoked);
}

}  // namespace square::controller
