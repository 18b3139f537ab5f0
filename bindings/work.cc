#include "work.h"

#include <algorithm>

namespace square::python {
namespace {

// How long a wait goes on before it looks for Ctrl-C.
constexpr Duration kSignalCheck = std::chrono::milliseconds(200);

}  // namespace

BufferWork::~BufferWork() {
  if (!work_->is_done()) work_->cancel();
  unlocked([&] { static_cast<void>(work_->wait()); });
}

void BufferWork::wait() {
  while (!unlocked([&] { return work_->wait_for(kSignalCheck); })) give_way_to_signals();
  check(work_->wait());
}

bool BufferWork::wait_for(double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + from_seconds(seconds);
  for (;;) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const Duration slice = std::clamp<Duration>(left, Duration(0), kSignalCheck);
    if (unlocked([&] { return work_->wait_for(slice); })) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    give_way_to_signals();
  }
}

void BufferWork::uses(ErrorFeedback& feedback) {
  residual_ = feedback.keeps();
  feedback.used_by(work_);
}

// Ctrl-C ends the operation before it ends the call: the buffer is free again then.
void BufferWork::give_way_to_signals() {
  if (PyErr_CheckSignals() == 0) return;
  work_->cancel();
  unlocked([&] { static_cast<void>(work_->wait()); });
  throw py::error_already_set();
}

void BufferWork::add_done_callback(py::function callback) {
  check(DoneNotices::instance().prepare(*notices_, std::move(callback)));
  work_->on_done([notices = notices_] { DoneNotices::instance().post(*notices); });
}

void bind_work(py::module_& module) {
  py::class_<BufferWork, std::shared_ptr<BufferWork>>(module, "Work", "An operation that runs.")
      .def("wait", &BufferWork::wait, "Waits until it is over; raises if it failed. Ctrl-C cancels it.")
      .def("wait_for", &BufferWork::wait_for, py::arg("seconds"), "Whether it was over within that time.")
      .def("cancel", &BufferWork::cancel, "Ends it on every member, unless it is over.")
      .def("add_done_callback", &BufferWork::add_done_callback, py::arg("callback"),
           "Calls ``callback()`` once when it is over, soon after if it is already, on a thread that all "
           "callbacks share while none of them waits. A callback may wait for other operations, whose "
           "callbacks "
           "may wait in turn, 64 levels deep; a deeper one gets ResourceExhaustedError here. Exceptions are "
           "reported as unraisable.")
      .def_property_readonly("source", &BufferWork::source,
                             "The rank that sent what a receive from any source got; otherwise None.")
      .def_property_readonly("compression_report", &BufferWork::compression_report,
                             "What compression did, once a compressed all_reduce is over; otherwise None.")
      .def_property_readonly("is_done", &BufferWork::is_done);
  // Before the interpreter goes: the thread needs it.
  py::module_::import("atexit").attr("register")(py::cpp_function([] { DoneNotices::instance().stop(); }));
}

}  // namespace square::python
