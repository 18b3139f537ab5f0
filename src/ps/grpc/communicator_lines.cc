#include "ps/grpc/communicator_lines.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "collective/group_calls.h"
#include "collective/point_to_point.h"

namespace square::ps {

class CommunicatorLines::Line final : public DataLine {
 public:
  Line(std::unique_ptr<Communicator> group, Rank other) : group_(std::move(group)), other_(other) {}
  ~Line() override { end(); }

  Result<std::shared_ptr<Work>> send(std::span<const std::byte> bytes) override {
    return begin([&](Communicator& group) { return group.send_async(bytes, other_, 0, kMessageTime); });
  }
  Result<std::shared_ptr<Work>> receive(std::span<std::byte> bytes) override {
    return begin([&](Communicator& group) { return group.receive_async(bytes, other_, 0, kMessageTime); });
  }

  void end() override {
    std::vector<std::weak_ptr<Work>> works;
    std::shared_ptr<Communicator> group;
    {
      const std::lock_guard lock(mutex_);
      works.swap(works_);
      group.swap(group_);
    }
    for (const std::weak_ptr<Work>& work : works) {
      if (const auto running = work.lock()) running->cancel();
    }
  }

 private:
  template <typename Call>
  Result<std::shared_ptr<Work>> begin(const Call& call) {
    std::shared_ptr<Communicator> group;
    {
      const std::lock_guard lock(mutex_);
      group = group_;
    }
    if (!group) return cancelled("the line was ended");
    SQUARE_ASSIGN_OR_RETURN(std::shared_ptr<Work> work, call(*group));
    const std::lock_guard lock(mutex_);
    if (!group_) work->cancel();
    std::erase_if(works_,
                  [](const std::weak_ptr<Work>& old) { return old.expired() || old.lock()->is_done(); });
    works_.push_back(work);
    return work;
  }

  std::mutex mutex_;
  std::shared_ptr<Communicator> group_;  // null: ended
  const Rank other_;
  std::vector<std::weak_ptr<Work>> works_;
};

std::shared_ptr<CommunicatorLines::Entry> CommunicatorLines::entry(const v1::PsTransfer& transfer) {
  std::shared_ptr<Entry> old;
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return nullptr;
  auto& [name, entry] = entries_[{transfer.worker(), transfer.server()}];
  if (name == transfer.line()) return entry;
  name = transfer.line();
  old = std::exchange(entry, std::make_shared<Entry>());
  return entry;
}

Result<std::shared_ptr<DataLine>> CommunicatorLines::open(const v1::PsTransfer& transfer) {
  const std::shared_ptr<Entry> entry = this->entry(transfer);
  if (!entry) return cancelled("the data flow has ended");
  const std::lock_guard lock(entry->mutex);
  if (!entry->line) {
    SQUARE_ASSIGN_OR_RETURN(entry->line, make(transfer));
  }
  return std::shared_ptr<DataLine>(entry->line);
}

Result<std::shared_ptr<CommunicatorLines::Line>> CommunicatorLines::make(const v1::PsTransfer& transfer) {
  GroupSpec group;
  group.name = transfer.line();
  group.tenant = kTenant;
  group.nodes = {transfer.worker_node(), transfer.server_node()};
  const std::uint32_t channel = channel_of(0);
  group.collectives = {unicast(Rank(0), Rank(1), channel), unicast(Rank(1), Rank(0), channel)};
  const bool is_worker = node_.name() == transfer.worker_node();
  SQUARE_ASSIGN_OR_RETURN(auto made, Communicator::create(node_, group, Rank(is_worker ? 0 : 1), kOpenTime));
  return std::make_shared<Line>(std::move(made), Rank(is_worker ? 1 : 0));
}

void CommunicatorLines::stop() {
  std::vector<std::shared_ptr<Entry>> entries;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    for (auto& [pair, named] : std::exchange(entries_, {})) entries.push_back(std::move(named.second));
  }
  for (const auto& entry : entries) {
    const std::lock_guard lock(entry->mutex);
    if (entry->line) entry->line->end();
  }
}

}  // namespace square::ps
