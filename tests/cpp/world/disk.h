// A controller's store that outlives its process, and the moments at which that can be killed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/planted.h"
#include "store/store.h"

namespace square::test {

// Thrown by a write during which the process is killed.
struct KilledWhileWriting {};

// What a write has given to the disk, and what of that the disk still has when the host loses power: all of
// it, once the write has returned.
struct Disk {
  std::uint64_t id = 0;
  std::uint64_t term = 0;
  std::map<std::string, std::string> records;
  std::map<std::string, std::string> durable;
  std::uint64_t durable_term = 0;
  void sync() {
    if (is_planted(Bug::kStoreNotSynced)) return;
    durable = records;
    durable_term = term;
  }
  void lose_power() {
    records = durable;
    term = durable_term;
  }
  // The process is killed at a write: when so many more have begun, and before or after that one is on the
  // disk.
  std::optional<int> writes_until_death;
  bool keeps_the_last = false;
};

class DiskStore final : public store::Store {
 public:
  explicit DiskStore(Disk& disk) : disk_(disk), term_(++disk.term) { disk.sync(); }
  [[nodiscard]] store::StoreId id() const override { return disk_.id; }
  [[nodiscard]] std::uint64_t term() const override { return term_; }
  Result<std::map<std::string, std::string>> read() override { return disk_.records; }
  Status write(const std::vector<store::Write>& writes) override {
    if (disk_.term != term_) return failed_precondition("another controller has taken over the store");
    const bool dies = disk_.writes_until_death && --*disk_.writes_until_death <= 0;
    if (!dies || disk_.keeps_the_last) {
      for (const store::Write& write : writes) {
        if (write.value) {
          disk_.records[write.key] = *write.value;
        } else {
          disk_.records.erase(write.key);
        }
      }
    }
    disk_.sync();
    if (dies) {
      disk_.writes_until_death.reset();
      throw KilledWhileWriting();
    }
    return {};
  }

 private:
  Disk& disk_;
  const std::uint64_t term_;
};

}  // namespace square::test
