// The versions of a shard that are in memory: what is committed, the one before for as long as its buffer is
// free, and what is being made.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "ps/shard/moves.h"
#include "ps/shard/progress.h"
#include "ps/shard/snapshots.h"
#include "square/outer_optimizer.h"

namespace square::ps {

// copy_part(), copy_state(), state_head(), has(), committed() and give_up() may be called at any time, from
// any thread. Of the others one runs at a time, but for update() on parts, and made_part() of parts that are
// ready: they belong to whoever makes a version, until it is committed or aborted.
class Versions {
 public:
  // Nothing is committed, and nothing made.
  void clear();
  void put(OuterShard shard, const VersionId& id);
  [[nodiscard]] VersionId committed() const;
  [[nodiscard]] bool has(const VersionId& id) const;  // also as it is being made

  // The parameters of a part. Waits for it where the version is being made. False where the version is not in
  // memory. Errors: why it is not made; CANCELLED after a stop. A sender's copy takes a millisecond; what
  // changes versions waits for it.
  Result<bool> copy_part(const VersionId& id, std::size_t index, std::span<float> out,
                         const std::stop_token& stop) const;

  // Of the committed version, for another server. Errors: NOT_FOUND where it is another one, or has not got
  // all of those elements. An accumulator that is all zeros is not to be copied.
  Result<StateHead> state_head(const VersionId& id) const;
  Status copy_state(const VersionId& id, StateArray array, std::size_t first, std::span<float> out) const;

  // A version is going to be made. Then one of the three that follow says of what. Errors:
  // FAILED_PRECONDITION where one is there already, which was neither committed nor aborted.
  Result<std::shared_ptr<Progress>> begin(const VersionId& id);
  void make_of_shard(OuterShard shard);
  void make_like_before();
  // `delay` is Nesterov's.
  void make_of(std::vector<float> average, std::uint32_t delay);
  [[nodiscard]] bool is_made_of_average() const { return making_->kind == Kind::kAverage; }
  // OuterShard::update() of the average that make_of() was given. Whether the outcome is finite.
  [[nodiscard]] bool update(std::size_t first, std::size_t count, double factor);
  [[nodiscard]] SnapshotPart made_part(std::size_t index) const;
  [[nodiscard]] std::uint64_t made_rounds() const;
  [[nodiscard]] bool made_has_accumulator() const;
  // It is on the disk: to be committed or aborted.
  void complete();
  // Ends what is being made and is not complete; who makes it sees that in its progress, and aborts it.
  void give_up(const Status& cause);

  // What is made and complete; none where nothing is.
  [[nodiscard]] VersionId made() const;
  // Preconditions: made() is not none. Returns a buffer that is free now, perhaps an empty one.
  std::vector<float> commit();
  // What was begun is gone. Nothing where nothing was.
  void abort();

 private:
  enum class Kind : std::uint8_t { kUnknown, kShard, kLikeBefore, kAverage };
  struct Making {
    VersionId id;
    std::shared_ptr<Progress> progress;
    Kind kind = Kind::kUnknown;
    std::optional<OuterShard> shard;  // in place of a step
    std::vector<float> average;       // the new momentum or accumulator, where it is updated
    bool moves_momentum = true;
    bool is_complete = false;
  };

  // What copies waits for the gate, which a writer keeps: many senders do not hold it up for ever.
  [[nodiscard]] std::shared_lock<std::shared_mutex> reading() const;
  [[nodiscard]] std::unique_lock<std::shared_mutex> writing() const;
  [[nodiscard]] std::span<const float> made_parameters() const;
  // With a lock. Empty where it is not there.
  [[nodiscard]] std::optional<std::span<const float>> find(const VersionId& id, std::size_t index) const;

  mutable std::mutex gate_;
  mutable std::shared_mutex mutex_;
  std::optional<OuterShard> shard_;
  VersionId committed_;
  VersionId previous_;  // what OuterShard::next_parameters() are
  std::optional<Making> making_;
};

}  // namespace square::ps
