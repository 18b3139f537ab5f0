// The operations of a communicator that are not over.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "square/communicator.h"

namespace square {

// Thread-safe; always held by a shared_ptr.
class OpenWorks : public std::enable_shared_from_this<OpenWorks> {
 public:
  // Until it is over.
  void add(const std::shared_ptr<Work>& work);
  // Blocks until none is left, or `timeout` passed: how many are.
  std::size_t wait_for_none(Duration timeout);
  // Ends them on every member.
  void cancel();

 private:
  void remove(std::uint64_t number);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::weak_ptr<Work>> works_;
};

}  // namespace square
