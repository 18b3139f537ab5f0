// One server's shard with a folder, lines and a strand of its own, and the workers at its lines.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ps/shard/memory_lines.h"
#include "ps/shard/shard.h"
#include "square/thread_executor.h"

namespace square::test {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::set<std::string> files() const;

 private:
  std::filesystem::path path_;
};

struct RigOptions {
  std::uint64_t begin = 7;  // of the model
  std::uint64_t size = 0;
  std::uint64_t behind = 0;  // elements of the model behind the shard
  ps::Nesterov outer = {};
  bool is_bfloat16 = false;
  bool pushes_parameters = false;
  std::size_t kept = 3;
  unsigned threads = 2;
};

// Calls of the host are made on the strand; what they give is waited for.
class ShardRig {
 public:
  ShardRig(const TemporaryFolder& folder, RigOptions options);
  ~ShardRig() { stop(); }

  template <typename T>
  std::future<T> begin(std::function<void(ps::Shard&, ps::ShardHost::Done<T>)> call) {
    const auto promise = std::make_shared<std::promise<T>>();
    strand_.post([this, promise, call = std::move(call)] {
      call(*shard_, [this, promise](T value) {
        if (!strand_.is_on_strand()) std::abort();
        promise->set_value(std::move(value));
      });
    });
    return promise->get_future();
  }
  // What calls name from now on.
  void set_range(std::uint64_t begin, std::uint64_t size) {
    options_.begin = begin;
    options_.size = size;
  }
  void on_strand(const std::function<void(ps::Shard&)>& call);
  void stop();

  Status open(std::uint64_t version, std::uint64_t maker);
  [[nodiscard]] v1::PsTransfer transfer(std::uint64_t ticket, std::uint64_t version,
                                        std::uint64_t maker = 0) const;
  std::future<Result<double>> take(const v1::PsTransfer& transfer);
  std::future<Result<double>> average(const std::vector<std::pair<std::uint64_t, double>>& terms);
  // Its maker is 100 + version.
  std::future<Result<ps::MadeVersion>> make(std::uint64_t version, double factor, std::uint64_t seed = 0);
  std::future<Status> send(const v1::PsTransfer& transfer);
  Status drop_made();
  void commit(std::uint64_t version);
  std::vector<std::uint64_t> held();

  // What workers do, each on a thread.
  std::future<Status> push(const v1::PsTransfer& transfer, std::vector<float> values, bool is_bfloat16);
  std::future<Result<std::vector<float>>> pull(const v1::PsTransfer& transfer);
  // Both ends of a push or a pull, all at once.
  Result<double> whole_push(std::uint64_t ticket, const std::vector<float>& values, bool is_seed = false);
  Result<std::vector<float>> whole_pull(std::uint64_t version);
  // Seed, snapshot and commit of version 1.
  void begin_with(const std::vector<float>& parameters);
  // A round of one push, committed.
  void whole_round(std::uint64_t version, const std::vector<float>& push, double factor);

  MemoryLines& lines() { return lines_; }
  ps::Shard& shard() { return *shard_; }

 private:
  RigOptions options_;
  const std::uint64_t model_size_;
  MemoryLines lines_;
  ThreadExecutor strand_;
  std::unique_ptr<ps::Shard> shard_;
  std::uint64_t last_ticket_ = 1000;
};

// A layout that covers a model of `elements`: two other servers have the rest.
v1::PsLayout layout_around(const v1::PsShard& shard, std::uint64_t elements);
// The same again and again.
std::vector<float> drawn(std::uint64_t seed, std::size_t count, float scale = 1.0F);
// What a bfloat16 can hold.
std::vector<float> cut_to_bfloat16(std::vector<float> values);

}  // namespace square::test
