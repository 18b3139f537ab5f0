#include "ps/shard/transfers.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/check.h"

namespace square::ps {

Result<std::shared_ptr<DataLine>> Transfer::open_line() {
  if (stop().stop_requested()) return cancelled("the transfer was cancelled");
  SQUARE_ASSIGN_OR_RETURN(std::shared_ptr<DataLine> line, lines_.open(what_));
  ends_line_.emplace(stop(), [line] { line->end(); });
  return line;
}

Status Transfers::start(const v1::PsTransfer& what, Body body) {
  if (is_stopped_) return cancelled("the server stops");
  cancel(what.ticket());
  join_those_over();
  if (running_.size() >= kMost) {
    return resource_exhausted(fmt::format("{} transfers run: a server does no more at once", kMost));
  }
  const auto transfer = std::make_shared<Transfer>(what, lines_);
  try {
    std::thread thread([transfer, body = std::move(body)]() mutable {
      body(*transfer);
      body = nullptr;
      transfer->ends_line_.reset();
      transfer->is_over_ = true;
    });
    running_.push_back({transfer, std::move(thread)});
  } catch (const std::system_error& error) {
    return resource_exhausted(fmt::format("no thread for a transfer: {}", error.what()));
  }
  return {};
}

void Transfers::cancel(std::uint64_t ticket) {
  for (Running& running : running_) {
    if (running.transfer->what().ticket() == ticket) running.transfer->source_.request_stop();
  }
}

void Transfers::cancel_all() {
  for (Running& running : running_) running.transfer->source_.request_stop();
}

void Transfers::join_those_over() {
  std::erase_if(running_, [](Running& running) {
    if (!running.transfer->is_over_) return false;
    running.thread.join();
    return true;
  });
}

void Transfers::stop() {
  is_stopped_ = true;
  cancel_all();
  for (Running& running : running_) running.thread.join();
  running_.clear();
}

}  // namespace square::ps
