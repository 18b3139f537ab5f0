// A worker's parameters in a process: what it trains on, what it pushed, what comes, and their transfers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ps/data/data_lines.h"
#include "ps/worker/parameter_host.h"
#include "square/executor.h"

namespace square::ps {

// All tensors of the trainer, one behind the other.
using Tensors = std::span<const std::span<float>>;
using ConstTensors = std::span<const std::span<const float>>;

// Three copies of the model in float32. Calls of ParameterHost come on the strand, the others from the
// trainer's thread.
class Parameters final : public ParameterHost {
 public:
  // A worker's transfers that run at once: one for each server, and those that end.
  static constexpr std::size_t kMostTransfers = 1024;

  // `lines` and `strand` must outlive it.
  Parameters(std::uint64_t elements, DataLines& lines, Executor& strand);
  ~Parameters() override;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  void send_push(const v1::PsTransfer& transfer, Done done) override;
  void take_version(const v1::PsTransfer& transfer, Done done) override;
  void cancel(std::uint64_t ticket) override;
  // As the master wants them.
  void set_pushes(bool are_parameters, bool are_bfloat16);

  // What is to be pushed: a copy. Waits until what is left of an earlier push does not read any more.
  void set_aside(ConstTensors tensors);
  // The version that is here becomes the base, and the tensors go on from it with what was done since
  // set_aside(), or `drops_work`. True if what was done had to be dropped: it was not finite.
  bool adopt(Tensors tensors, bool drops_work);

  // The base is what these hold.
  void rebase(ConstTensors tensors);

  // Ends all transfers, and joins their threads.
  void stop();

 private:
  struct Transfer {
    v1::PsTransfer what;
    bool is_push = false;
    std::thread thread;
    std::shared_ptr<DataLine> line;
    bool is_cancelled = false;
    bool is_over = false;
  };

  void start(const v1::PsTransfer& what, bool is_push, Done done);
  Status run(Transfer& transfer);
  // The line, unless it was cancelled meanwhile.
  Result<std::shared_ptr<DataLine>> open(Transfer& transfer);
  // Until no other transfer that is over for the master writes where this one will.
  void wait_for_others(const Transfer& transfer);
  Status send(const v1::PsTransfer& what, DataLine& line);
  Status receive(const v1::PsTransfer& what, DataLine& line);
  void write_payload(std::span<std::byte> payload, std::uint64_t first, std::size_t count,
                     bool is_seed) const;
  // Without the lock: those that are over.
  std::list<std::shared_ptr<Transfer>> take_those_over();
  static void cancel(Transfer& transfer);
  // Ends what is left of earlier pushes, and waits for it: nobody reads base or what was set aside then.
  void end_pushes();

  DataLines& lines_;
  Executor& strand_;
  std::vector<float> base_;
  std::vector<float> set_aside_;
  std::vector<float> staged_;
  std::atomic<bool> are_parameters_ = false;
  std::atomic<bool> are_bfloat16_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  std::list<std::shared_ptr<Transfer>> transfers_;
};

}  // namespace square::ps
