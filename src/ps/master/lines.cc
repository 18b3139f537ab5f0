#include "ps/master/lines.h"

#include <fmt/format.h>

namespace square::ps {

std::string Lines::key(const MemberEntry& worker, const ServerEntry& server) {
  return fmt::format("{}.{:x}/{}.{:x}", worker.name, worker.incarnation, server.name, server.incarnation);
}

v1::PsTransfer Lines::transfer(const MemberEntry& worker, const ServerEntry& server) const {
  v1::PsTransfer transfer;
  transfer.set_worker(worker.name);
  transfer.set_worker_node(worker.node);
  transfer.set_server(server.name);
  transfer.set_server_node(server.node);
  const std::string between = key(worker, server);
  const auto failures = failures_.find(between);
  transfer.set_line(fmt::format("ps/{:x}/{}/{}/{}", desk_.maker, generation_, between,
                                failures == failures_.end() ? 0 : failures->second));
  return transfer;
}

void Lines::note_failure(const MemberEntry& worker, const ServerEntry& server) {
  if (failures_.size() >= kMostFailures) {
    failures_.clear();
    ++generation_;
  }
  ++failures_[key(worker, server)];
}

}  // namespace square::ps
