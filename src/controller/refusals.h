// Which processes are no more: their hosts answer, and say that nobody listens at their addresses.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "square/units.h"

namespace square::controller {

// Whoever is refused so often in a row is no more. An attempt may take so long, and they are so far apart.
inline constexpr int kRefusalsOfDead = 2;
inline constexpr Duration kRefusalTime = std::chrono::milliseconds(250);
inline constexpr Duration kRefusalPause = std::chrono::milliseconds(100);
// A host that is gone does not answer at all: so many are dialled at once.
inline constexpr std::size_t kMaxDials = 64;

// Dials on threads of its own, which begin when there is somebody to dial. Thread-safe.
class Refusals {
 public:
  // Called on one of them for each that is found dead, again and again: it may have been expected still, or
  // not missed yet, when it was told first.
  using Found = std::function<void(const std::string& node, const std::string& address)>;
  explicit Refusals(Found found) : found_(std::move(found)) {}
  ~Refusals() { stop(); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // From now on these are dialled, by node, and no others. Does not block.
  void watch(std::map<std::string, std::string> addresses);
  // Waits for the threads: for one attempt. Idempotent.
  void stop();

 private:
  void run();
  // Whether each is refused, as far as it was asked before stop().
  std::map<std::string, bool> dial(const std::map<std::string, std::string>& round);

  const Found found_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stopping_ = false;
  std::map<std::string, std::string> watched_;
  std::map<std::string, int> refusals_;  // in a row, of those watched
  std::thread thread_;
};

// Whether nobody listens at the address, and its host says so. Blocks for kRefusalTime at most, and while a
// name is looked up.
bool is_refused(const std::string& address);

}  // namespace square::controller
