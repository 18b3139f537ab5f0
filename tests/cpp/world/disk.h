// A store that outlives its controllers' processes, and the moments at which one can be killed. Several lease
// it one after another, as they do a database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/planted.h"
#include "square/clock.h"
#include "store/lease.h"
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
  // By its own clock: until when it is leased to the process that has its term.
  TimePoint lease_end{};
  bool is_away = false;
  std::set<std::string> cut_off{};  // hosts that do not reach it
  [[nodiscard]] bool is_reached_from(const std::string& host) const {
    return !is_away && !cut_off.contains(host);
  }
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
  // Takes hold of it for a process on the host. `clock` is the disk's.
  DiskStore(Disk& disk, const Clock& clock, std::string host)
      : disk_(disk),
        clock_(clock),
        host_(std::move(host)),
        term_(is_planted(Bug::kTermNotRaised) && disk.term > 0 ? disk.term : ++disk.term),
        lease_(clock.now()) {
    disk.sync();
    disk.lease_end = clock.now() + store::kLeaseTime;
  }
  [[nodiscard]] store::StoreId id() const override { return disk_.id; }
  [[nodiscard]] std::uint64_t term() const override { return term_; }
  Result<std::map<std::string, std::string>> read() override { return disk_.records; }
  Status write(const std::vector<store::Write>& writes) override {
    if (Status renewed = renew(); !renewed.is_ok()) return renewed;
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

  // Every kLeaseBeat, as PostgresStore does, at this time by the process's clock.
  void beat(TimePoint now) { note_hold(lease_.note(renew(), now, now)); }
  // Its process ends in order.
  void end() {
    if (disk_.is_reached_from(host_) && disk_.term == term_) disk_.lease_end = clock_.now();
  }

 private:
  Status renew() {
    if (!disk_.is_reached_from(host_)) return unavailable("the store cannot be reached");
    if (disk_.term != term_ && !is_planted(Bug::kStaleLeaderWrites))
      return failed_precondition("another controller has taken over the store");
    disk_.lease_end = clock_.now() + store::kLeaseTime;
    return {};
  }

  Disk& disk_;
  const Clock& clock_;
  const std::string host_;
  const std::uint64_t term_;
  store::HeldLease lease_;
};

}  // namespace square::test
