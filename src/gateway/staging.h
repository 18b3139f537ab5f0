// How much memory, and how many segments, a gateway may hold for operations, in all and for each tenant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "square/status.h"

namespace square::gateway {

// Each rank of an operation has an input and an output at most.
inline constexpr std::size_t kSegmentsOfRank = 2;
// Segments of operations under way. The kernel lets a process map some 65,000 pieces of memory, and without
// any left it can start no thread.
inline constexpr std::size_t kMaxSegments = 8'192;
inline constexpr std::size_t kMaxSegmentsOfTenant = 4'096;

struct StagingLimits {
  std::uint64_t tenant_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// Not thread-safe.
class StagingBudget {
 public:
  explicit StagingBudget(StagingLimits limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED, with the limit's name, for what can never fit.
  [[nodiscard]] Status check(const std::string& tenant, std::uint64_t bytes, std::size_t segments = 0) const;

  enum class Answer { kTaken, kTenantIsFull, kAllIsFull };
  Answer take(const std::string& tenant, std::uint64_t bytes, std::size_t segments = 0);
  void give_back(const std::string& tenant, std::uint64_t bytes, std::size_t segments = 0);

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  // "900 of 1000 bytes and 4 of 4096 segments of tenant ... are in use, ..."
  [[nodiscard]] std::string describe(const std::string& tenant) const;

 private:
  struct Used {
    std::uint64_t bytes = 0;
    std::size_t segments = 0;
  };
  [[nodiscard]] Used used_by(const std::string& tenant) const;

  StagingLimits limits_;
  std::uint64_t used_bytes_ = 0;
  std::size_t used_segments_ = 0;
  std::map<std::string, Used> by_tenant_;
};

}  // namespace square::gateway
