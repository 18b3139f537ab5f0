// What a process that leases a store knows of its lease.
#pragma once

#include "square/clock.h"
#include "square/status.h"
#include "store/store.h"

namespace square::store {

// A holder renews its lease this often. The store's clock alone says when a lease has ended.
inline constexpr Duration kLeaseBeat = std::chrono::seconds(1);
inline constexpr Duration kLeaseTime = std::chrono::seconds(3);

// Not thread-safe.
class HeldLease {
 public:
  // It was taken at this time at the earliest.
  explicit HeldLease(TimePoint taken) : renewed_(taken) {}

  // The lease was to be renewed; that began at `begun` and came to `outcome`.
  Hold note(const Status& outcome, TimePoint begun, TimePoint now) {
    if (outcome.code() == StatusCode::kFailedPrecondition) return Hold::kTaken;
    if (outcome.is_ok()) renewed_ = begun;
    return now - renewed_ < kLeaseTime ? Hold::kOurs : Hold::kLate;
  }

 private:
  TimePoint renewed_;
};

}  // namespace square::store
