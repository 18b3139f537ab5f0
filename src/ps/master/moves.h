// Servers that come once training has begun get their part of the model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ps/master/admission.h"

namespace square::ps {

// A move is a version like the one before, in another layout: committed as any other, or not at all. What is
// pushed meanwhile is skipped, so that its workers train on. Not thread-safe.
class Moves {
 public:
  // Servers that begin together move together.
  static constexpr Duration kSettleTime = std::chrono::seconds(1);
  // Servers that one move adds at most. Looking for their places takes time that grows with their number.
  static constexpr std::size_t kMostAtOnce = 64;
  // One that fails is tried again after this, then after twice as long, and so on.
  static constexpr Duration kFirstWait = std::chrono::seconds(5);
  static constexpr Duration kLongestWait = std::chrono::minutes(5);

  Moves(MasterParts& parts, Admission& admission) : parts_(parts), admission_(admission) {}

  // Begins what is due.
  void on_time();
  void on_committed(std::uint64_t version);
  void on_skipped(std::uint64_t version);
  // One is under way, or begins once nothing else is.
  [[nodiscard]] bool keeps_pushes_out() const { return is_due_ || parts_.rounds.is_moving(); }

 private:
  [[nodiscard]] std::vector<ServerEntry*> newcomers();
  [[nodiscard]] v1::PsLayout layout_with(const std::vector<ServerEntry*>& newcomers);
  [[nodiscard]] std::map<std::string, v1::PsMove> orders_for(const v1::PsLayout& layout);
  void begin(const std::vector<ServerEntry*>& newcomers);

  MasterParts& parts_;
  Admission& admission_;
  bool is_due_ = false;
  std::uint64_t tried_ = 0;  // the version; 0: none
  int failures_ = 0;
  TimePoint next_try_{};
};

}  // namespace square::ps
