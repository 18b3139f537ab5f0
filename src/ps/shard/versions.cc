#include "ps/shard/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ps/data/parts.h"
#include "ps/outer/kernels.h"

namespace square::ps {
namespace {

std::span<const float> part_of(std::span<const float> all, std::size_t index) {
  return all.empty() ? all : all.subspan(index * kPartElements, part_size(all.size(), index));
}

}  // namespace

std::shared_lock<std::shared_mutex> Versions::reading() const {
  const std::lock_guard gate(gate_);
  return std::shared_lock(mutex_);
}

std::unique_lock<std::shared_mutex> Versions::writing() const {
  const std::lock_guard gate(gate_);
  return std::unique_lock(mutex_);
}

void Versions::clear() {
  const auto lock = writing();
  making_.reset();
  shard_.reset();
  committed_ = previous_ = {};
}

void Versions::put(OuterShard shard, const VersionId& id) {
  const auto lock = writing();
  shard_.emplace(std::move(shard));
  committed_ = id;
  previous_ = {};
}

VersionId Versions::committed() const {
  const auto lock = reading();
  return committed_;
}

bool Versions::has(const VersionId& id) const {
  const auto lock = reading();
  return id == committed_ || id == previous_ || (making_ && making_->id == id);
}

std::span<const float> Versions::made_parameters() const {
  if (making_->kind == Kind::kShard) return making_->shard->parameters();
  return making_->kind == Kind::kAverage ? shard_->next_parameters() : shard_->parameters();
}

std::optional<std::span<const float>> Versions::find(const VersionId& id, std::size_t index) const {
  if (making_ && making_->id == id) {
    if (!making_->progress->is_ready(index + 1)) return std::nullopt;
    return made_parameters();
  }
  if (!shard_) return std::nullopt;
  if (id == committed_) return shard_->parameters();
  if (id == previous_) return shard_->next_parameters();
  return std::nullopt;
}

Result<bool> Versions::copy_part(const VersionId& id, std::size_t index, std::span<float> out,
                                 const std::stop_token& stop) const {
  while (true) {
    std::shared_ptr<Progress> progress;
    {
      const auto lock = reading();
      if (const auto all = find(id, index)) {
        // Of a server whose shard was cut anew meanwhile.
        if (all->size() < index * kPartElements + out.size()) return not_found("a part of another shard");
        std::ranges::copy(all->subspan(index * kPartElements, out.size()), out.begin());
        return true;
      }
      if (making_ && making_->id == id) progress = making_->progress;
    }
    if (progress == nullptr) return false;
    SQUARE_RETURN_IF_ERROR(progress->wait(index + 1, stop));
  }
}

Result<StateHead> Versions::state_head(const VersionId& id) const {
  const auto lock = reading();
  if (!shard_ || id != committed_) return not_found(fmt::format("{} is not the newest here", to_string(id)));
  return StateHead{shard_->rounds(), !shard_->accumulator().empty()};
}

Status Versions::copy_state(const VersionId& id, StateArray array, std::size_t first,
                            std::span<float> out) const {
  const auto lock = reading();
  if (!shard_ || id != committed_) return not_found(fmt::format("{} is not the newest here", to_string(id)));
  const std::span<const float> all = array == StateArray::kParameters ? shard_->parameters()
                                     : array == StateArray::kMomentum ? shard_->momentum()
                                                                      : shard_->accumulator();
  if (first > all.size() || all.size() - first < out.size()) return not_found("elements of another shard");
  std::ranges::copy(all.subspan(first, out.size()), out.begin());
  return {};
}

Result<std::shared_ptr<Progress>> Versions::begin(const VersionId& id) {
  const auto lock = writing();
  if (making_) {
    return failed_precondition(fmt::format("{} is neither committed nor dropped, and {} is to be made",
                                           to_string(making_->id), to_string(id)));
  }
  making_ = Making{};
  making_->id = id;
  making_->progress = std::make_shared<Progress>();
  return making_->progress;
}

void Versions::make_of_shard(OuterShard shard) {
  const auto lock = writing();
  making_->shard.emplace(std::move(shard));
  making_->kind = Kind::kShard;
}

void Versions::make_like_before() {
  const auto lock = writing();
  SQUARE_CHECK(shard_.has_value(), "there is no version before");
  making_->kind = Kind::kLikeBefore;
}

void Versions::make_of(std::vector<float> average, std::uint32_t delay) {
  const auto lock = writing();
  SQUARE_CHECK(shard_.has_value(), "there is no version before");
  making_->kind = Kind::kAverage;
  making_->average = std::move(average);
  making_->moves_momentum = (shard_->rounds() + 1) % delay == 0;
  previous_ = {};  // its buffer takes the new one
  shard_->begin();
}

bool Versions::update(std::size_t first, std::size_t count, double factor) {
  const std::span<float> average = std::span(making_->average).subspan(first, count);
  shard_->update(first, average, factor);
  // Both are in the cache yet.
  return squared_norm(shard_->next_parameters().subspan(first, count)).is_finite &&
         squared_norm(average).is_finite;
}

SnapshotPart Versions::made_part(std::size_t index) const {
  const OuterShard& shard = making_->kind == Kind::kShard ? *making_->shard : *shard_;
  SnapshotPart part{part_of(made_parameters(), index), part_of(shard.momentum(), index), {}};
  if (making_->kind != Kind::kAverage) {
    part.accumulator = part_of(shard.accumulator(), index);
  } else if (making_->moves_momentum) {
    part.momentum = part_of(making_->average, index);
  } else {
    part.accumulator = part_of(making_->average, index);
  }
  return part;
}

std::uint64_t Versions::made_rounds() const {
  if (making_->kind == Kind::kShard) return making_->shard->rounds();
  return shard_->rounds() + (making_->kind == Kind::kAverage ? 1 : 0);
}

bool Versions::made_has_accumulator() const {
  if (making_->kind == Kind::kShard) return !making_->shard->accumulator().empty();
  return making_->kind == Kind::kAverage ? !making_->moves_momentum : !shard_->accumulator().empty();
}

void Versions::complete() {
  const auto lock = writing();
  making_->is_complete = true;
}

void Versions::give_up(const Status& cause) {
  const auto lock = reading();
  if (making_ && !making_->is_complete) making_->progress->fail(cause);
}

VersionId Versions::made() const {
  const auto lock = reading();
  return making_ && making_->is_complete ? making_->id : VersionId{};
}

std::vector<float> Versions::commit() {
  const auto lock = writing();
  SQUARE_CHECK(making_ && making_->is_complete, "nothing is made");
  std::vector<float> free;
  previous_ = {};
  if (making_->kind == Kind::kShard) {
    shard_ = std::move(making_->shard);
  } else if (making_->kind == Kind::kAverage) {
    free = shard_->commit(std::move(making_->average));
    previous_ = committed_;
  }
  committed_ = making_->id;
  making_.reset();
  return free;
}

void Versions::abort() {
  const auto lock = writing();
  if (making_ && making_->kind == Kind::kAverage) shard_->abort();
  making_.reset();
}

}  // namespace square::ps
