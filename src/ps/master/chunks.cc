#include "ps/master/chunks.h"

#include <algorithm>

namespace square::ps {

void Chunks::restore(const v1::PsRecord& record) {
  is_done_.assign(count_, false);
  holders_.clear();
  given_back_.clear();
  next_ = 0;
  done_ = 0;
  for (const v1::PsRange& range : record.chunks_done()) {
    for (std::uint64_t chunk = range.begin(); chunk < std::min(range.end(), count_); ++chunk) {
      if (!is_done_[chunk]) ++done_;
      is_done_[chunk] = true;
    }
  }
}

void Chunks::save(v1::PsRecord& record) const {
  record.clear_chunks_done();
  for (std::uint64_t chunk = 0; chunk < count_; ++chunk) {
    if (!is_done_[chunk]) continue;
    const int last = record.chunks_done_size() - 1;
    if (last >= 0 && record.chunks_done(last).end() == chunk) {
      record.mutable_chunks_done(last)->set_end(chunk + 1);
    } else {
      v1::PsRange& range = *record.add_chunks_done();
      range.set_begin(chunk);
      range.set_end(chunk + 1);
    }
  }
}

std::vector<std::uint64_t> Chunks::lease(const std::string& worker, std::uint32_t wanted) {
  std::vector<std::uint64_t> given;
  const auto give = [&](std::uint64_t chunk) {
    if (!is_done_[chunk] && holders_.emplace(chunk, worker).second) given.push_back(chunk);
  };
  while (given.size() < wanted && !given_back_.empty()) {
    give(*given_back_.begin());
    given_back_.erase(given_back_.begin());
  }
  while (given.size() < wanted && next_ < count_) give(next_++);
  return given;
}

std::size_t Chunks::holding_workers() const {
  std::set<std::string> names;
  for (const auto& [chunk, worker] : holders_) names.insert(worker);
  return names.size();
}

bool Chunks::claim(const std::string& worker, std::span<const std::uint64_t> chunks) {
  const bool are_free = std::ranges::all_of(chunks, [&](std::uint64_t chunk) {
    if (chunk >= count_ || is_done_[chunk]) return false;
    const auto holder = holders_.find(chunk);
    return holder == holders_.end() || holder->second == worker;
  });
  if (!are_free) return false;
  for (const std::uint64_t chunk : chunks) {
    holders_[chunk] = worker;
    given_back_.erase(chunk);
  }
  return true;
}

bool Chunks::are_held(const std::string& worker, std::span<const std::uint64_t> chunks) const {
  std::set<std::uint64_t> once;
  return std::ranges::all_of(chunks, [&](std::uint64_t chunk) {
    const auto holder = holders_.find(chunk);
    return once.insert(chunk).second && holder != holders_.end() && holder->second == worker;
  });
}

void Chunks::finish(std::span<const std::uint64_t> chunks) {
  for (const std::uint64_t chunk : chunks) {
    if (chunk >= count_ || is_done_[chunk]) continue;
    is_done_[chunk] = true;
    ++done_;
    holders_.erase(chunk);
    given_back_.erase(chunk);
  }
}

void Chunks::give_back(std::uint64_t chunk, const std::string& worker) {
  const auto holder = holders_.find(chunk);
  if (holder == holders_.end() || holder->second != worker) return;
  holders_.erase(holder);
  given_back_.insert(chunk);
}

void Chunks::release(const std::string& worker, const std::set<std::uint64_t>& kept) {
  std::erase_if(holders_, [&](const auto& entry) {
    if (entry.second != worker || kept.contains(entry.first)) return false;
    given_back_.insert(entry.first);
    return true;
  });
}

}  // namespace square::ps
