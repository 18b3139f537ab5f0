// What a node says when its controller asks how it is: docs/doctor.md.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "square/controlled_node.h"
#include "square/metrics.h"
#include "transport/grpc/handshake.h"

namespace square::examination {

// Questions that wait behind the one that is being answered; more are dropped.
inline constexpr std::size_t kMaxQuestions = 4;

// Asks the node's peers, looks at its host, and writes a report. Its thread lives while there is a question.
// Thread-safe.
class Examiner {
 public:
  // `metrics` blocks for a moment; it is called until stop().
  // `is_sealed`: the node seals its groups' blocks.
  Examiner(rpc::Self self, bool is_sealed, std::function<NodeMetrics()> metrics)
      : self_(std::move(self)), is_sealed_(is_sealed), metrics_(std::move(metrics)) {}
  ~Examiner() { stop(); }
  Examiner(const Examiner&) = delete;
  Examiner& operator=(const Examiner&) = delete;

  // Does not block. `answer` is given the report, as JSON, once and from the examiner's thread; never where
  // the question is dropped.
  void examine(ExamineQuestion question, std::function<void(std::string)> answer);
  // Drops what is not answered. Idempotent.
  void stop();

 private:
  struct Waiting {
    ExamineQuestion question;
    std::function<void(std::string)> answer;
  };

  void run();
  [[nodiscard]] std::string report(const ExamineQuestion& question);
  bool sleep_until(std::chrono::steady_clock::time_point end);

  const rpc::Self self_;
  const bool is_sealed_;
  const std::function<NodeMetrics()> metrics_;
  std::atomic<bool> is_stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool is_running_ = false;
  std::thread thread_;
};

}  // namespace square::examination
