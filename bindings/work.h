// An operation of a Python program that runs.
#pragma once

#include <memory>

#include "buffers.h"
#include "compression.h"
#include "done_notices.h"
#include "square/communicator.h"

namespace square::python {

// An operation and the buffers that it reads or fills. They are let go only when
// nothing refers to them: dropping a running work cancels it and waits, about 1 s at most.
class BufferWork {
 public:
  BufferWork(std::shared_ptr<Work> work, Buffers buffers)
      : work_(std::move(work)), buffers_(std::move(buffers)) {}
  BufferWork(const BufferWork&) = delete;
  BufferWork& operator=(const BufferWork&) = delete;
  ~BufferWork();

  void wait();
  bool wait_for(double seconds);
  [[nodiscard]] bool is_done() const { return work_->is_done(); }
  void cancel() { work_->cancel(); }
  [[nodiscard]] std::optional<std::uint32_t> source() const {
    const auto rank = work_->source();
    return rank ? std::optional(rank->value()) : std::nullopt;
  }
  [[nodiscard]] std::optional<CompressionReport> compression_report() const {
    return work_->compression_report();
  }
  // It is kept until the operation is over, and of no use for others.
  void uses(ErrorFeedback& feedback);
  // On the thread of the notices, with the interpreter's lock.
  void add_done_callback(py::function callback);

 private:
  void give_way_to_signals();

  std::shared_ptr<Work> work_;
  Buffers buffers_;
  std::shared_ptr<void> residual_;
  const std::shared_ptr<DoneNotices::Notices> notices_ = std::make_shared<DoneNotices::Notices>();
};

void bind_work(py::module_& module);

}  // namespace square::python
