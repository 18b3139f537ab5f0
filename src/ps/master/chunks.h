// Chunks of the data set: each is done once, whoever dies.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "square/v1/parameter_server.pb.h"

namespace square::ps {

// A chunk is free, held by one worker, or done: counted in a version that is committed. Not thread-safe.
class Chunks {
 public:
  explicit Chunks(std::uint64_t count) : count_(count), is_done_(count) {}

  // Nobody holds any.
  void restore(const v1::PsRecord& record);
  void save(v1::PsRecord& record) const;

  // Up to so many free ones, the lowest first.
  std::vector<std::uint64_t> lease(const std::string& worker, std::uint32_t wanted);
  // What a worker says that it holds is its own again, if nobody else has had it since: all of it or nothing.
  bool claim(const std::string& worker, std::span<const std::uint64_t> chunks);
  [[nodiscard]] bool are_held(const std::string& worker, std::span<const std::uint64_t> chunks) const;
  void finish(std::span<const std::uint64_t> chunks);
  // Free again, if the worker holds it.
  void give_back(std::uint64_t chunk, const std::string& worker);
  // All that the worker holds is free again, but for these.
  void release(const std::string& worker, const std::set<std::uint64_t>& kept = {});

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t held() const { return holders_.size(); }
  // Whether one can be leased.
  [[nodiscard]] bool has_free() const { return done_ + holders_.size() < count_; }
  [[nodiscard]] std::size_t holding_workers() const;
  [[nodiscard]] bool is_finished() const { return count_ > 0 && done_ == count_; }

 private:
  std::uint64_t count_;
  std::vector<bool> is_done_;
  std::uint64_t done_ = 0;
  std::map<std::uint64_t, std::string> holders_;
  std::uint64_t next_ = 0;  // below it none is free, but for those given back
  std::set<std::uint64_t> given_back_;
};

}  // namespace square::ps
