#include "controller/refusals.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/net/socket.h"

namespace square::controller {

bool is_refused(const std::string& address) {
  const auto parsed = net::parse_host_port(address);
  if (!parsed.is_ok()) return false;
  const auto reached = net::connect_to(*parsed, kRefusalTime);
  // It is said in words only.
  return !reached.is_ok() &&
         reached.status().message().find(std::strerror(ECONNREFUSED)) != std::string::npos;
}

void Refusals::watch(std::map<std::string, std::string> addresses) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || addresses == watched_) return;
  std::erase_if(refusals_, [&](const auto& entry) {
    const auto now = addresses.find(entry.first);
    return now == addresses.end() || now->second != watched_.at(entry.first);
  });
  watched_ = std::move(addresses);
  if (!thread_.joinable() && !watched_.empty()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void Refusals::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::map<std::string, bool> Refusals::dial(const std::map<std::string, std::string>& round) {
  std::map<std::string, bool> refused;
  std::mutex mutex;
  auto next = round.begin();
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (!stopping_ && next != round.end()) {
      const auto& [node, address] = *next++;
      lock.unlock();
      const bool is_no_more = is_refused(address);
      lock.lock();
      refused[node] = is_no_more;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(round.size(), kMaxDials); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return refused;
}

void Refusals::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait(lock, [this] { return stopping_ || !watched_.empty(); });
    const auto round = watched_;
    lock.unlock();
    const std::map<std::string, bool> refused = dial(round);
    lock.lock();
    std::vector<std::pair<std::string, std::string>> dead;
    for (const auto& [node, is_no_more] : refused) {
      const auto still = watched_.find(node);
      if (still == watched_.end() || still->second != round.at(node)) continue;
      int& times = refusals_[node];
      times = is_no_more ? times + 1 : 0;
      if (times > 0 && times % kRefusalsOfDead == 0) dead.emplace_back(*still);
    }
    lock.unlock();
    for (const auto& [node, address] : dead) found_(node, address);
    lock.lock();
    changed_.wait_for(lock, kRefusalPause, [this]() -> bool { return stopping_; });
  }
}

}  // namespace square::controller
