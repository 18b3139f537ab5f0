#include "square/data_plane.h"

#include "base/check.h"
#include "node/dispatcher.h"

namespace square {

DataPlane::DataPlane(DataPlaneOptions options, const Clock& clock, Transport& transport, Executor& executor)
    : dispatcher_(std::make_unique<Dispatcher>(std::move(options), clock, transport, executor)) {}

DataPlane::~DataPlane() = default;

const std::string& DataPlane::name() const { return dispatcher_->context().options.name; }

Status DataPlane::start() {
  const DataPlaneOptions& options = dispatcher_->context().options;
  if (options.name.empty()) return invalid_argument("a node needs a name");
  if (options.window_bytes < kMinWindowBytes) {
    return invalid_argument("window_bytes of node \"" + options.name + "\" is below " +
                            std::to_string(kMinWindowBytes));
  }
  return dispatcher_->context().transport.start(*dispatcher_);
}

void DataPlane::stop(std::function<void()> stopped) {
  dispatcher_->on_strand(
      [stopped = std::move(stopped)](Dispatcher& dispatcher) { dispatcher.stop(stopped); });
}

void DataPlane::set_address(std::string peer, std::string address, std::uint64_t incarnation) {
  dispatcher_->on_strand([peer = std::move(peer), address = std::move(address), incarnation](
                             Dispatcher& dispatcher) { dispatcher.set_address(peer, address, incarnation); });
}

void DataPlane::set_gone(std::string peer, std::string reason, std::optional<FinishedOperations> finished) {
  dispatcher_->on_strand([peer = std::move(peer), reason = std::move(reason), finished = std::move(finished)](
                             Dispatcher& dispatcher) { dispatcher.set_gone(peer, reason, finished); });
}

void DataPlane::set_unplanned(std::vector<CollectiveId> collectives, std::string reason) {
  dispatcher_->on_strand([collectives = std::move(collectives), reason = std::move(reason)](
                             Dispatcher& dispatcher) { dispatcher.set_unplanned(collectives, reason); });
}

void DataPlane::finished(std::function<void(FinishedOperations)> report) {
  dispatcher_->on_strand(
      [report = std::move(report)](const Dispatcher& dispatcher) { report(dispatcher.finished()); });
}

std::vector<LinkReport> DataPlane::take_measured() { return dispatcher_->take_measured(); }

std::vector<std::string> DataPlane::heard() const { return dispatcher_->context().heard.list(); }

void DataPlane::report_broken_links(std::function<void(LinkTroubles)> report,
                                    std::function<bool()> has_controller) {
  dispatcher_->on_strand(
      [report = std::move(report), has_controller = std::move(has_controller)](Dispatcher& dispatcher) {
        dispatcher.report_broken_links(report, has_controller);
      });
}

void DataPlane::look_for(std::string peer) {
  dispatcher_->on_strand([peer = std::move(peer)](Dispatcher& dispatcher) { dispatcher.look_for(peer); });
}

void DataPlane::set_group_key(std::string group, std::shared_ptr<const trust::GroupKey> key) {
  dispatcher_->on_strand([group = std::move(group), key = std::move(key)](Dispatcher& dispatcher) {
    dispatcher.set_group_key(group, key);
  });
}

void DataPlane::report_sights(std::function<void(std::vector<BlockSight> sights)> report) {
  dispatcher_->on_strand(
      [report = std::move(report)](Dispatcher& dispatcher) { dispatcher.report_sights(report); });
}

void DataPlane::install_plan(std::shared_ptr<const Plan> plan, std::function<void(Epoch)> installed) {
  dispatcher_->on_strand([plan = std::move(plan), installed = std::move(installed)](Dispatcher& dispatcher) {
    dispatcher.install_plan(plan, installed);
  });
}

void DataPlane::activate_plan(Epoch epoch, bool moves) {
  dispatcher_->on_strand([epoch, moves](Dispatcher& dispatcher) { dispatcher.activate_plan(epoch, moves); });
}

void DataPlane::set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) {
  dispatcher_->on_strand([collective, group = std::move(group), ranks = std::move(ranks)](
                             Dispatcher& dispatcher) { dispatcher.set_members(collective, group, ranks); });
}

void DataPlane::close_group(std::string group) {
  dispatcher_->on_strand(
      [group = std::move(group)](Dispatcher& dispatcher) { dispatcher.close_group(group); });
}

void DataPlane::leave_group(std::string group, Rank member) {
  dispatcher_->on_strand(
      [group = std::move(group), member](Dispatcher& dispatcher) { dispatcher.leave_group(group, member); });
}

void DataPlane::post(MemberOperation operation) {
  dispatcher_->on_strand(
      [operation = std::move(operation)](Dispatcher& dispatcher) { dispatcher.post(operation); });
}

void DataPlane::cancel(CollectiveId collective, OperationId operation) {
  dispatcher_->on_strand(
      [key = OperationKey{collective, operation}](Dispatcher& dispatcher) { dispatcher.cancel(key); });
}

void DataPlane::fail(CollectiveId collective, OperationId operation, Status cause) {
  dispatcher_->on_strand([key = OperationKey{collective, operation},
                          cause = std::move(cause)](Dispatcher& dispatcher) { dispatcher.fail(key, cause); });
}

void DataPlane::watch(CollectiveId collective, OperationId operation, Duration timeout,
                      std::function<void(Status)> arrived) {
  dispatcher_->on_strand([key = OperationKey{collective, operation}, timeout, arrived = std::move(arrived)](
                             Dispatcher& dispatcher) { dispatcher.watch(key, timeout, arrived); });
}

void DataPlane::describe(CollectiveId collective, OperationId operation,
                         std::function<void(std::string waits_for)> receive) {
  dispatcher_->on_strand([key = OperationKey{collective, operation}, receive = std::move(receive)](
                             Dispatcher& dispatcher) { receive(dispatcher.describe(key)); });
}

void DataPlane::after(Duration delay, std::function<void()> then) {
  dispatcher_->on_strand(
      [delay, then = std::move(then)](Dispatcher& dispatcher) { dispatcher.after(delay, then); });
}

const Clock& DataPlane::clock() const { return dispatcher_->context().clock; }

void DataPlane::metrics(std::function<void(NodeMetrics)> receive) {
  dispatcher_->on_strand(
      [receive = std::move(receive)](Dispatcher& dispatcher) { receive(dispatcher.metrics()); });
}

void DataPlane::statistics(std::function<void(NodeStatistics)> receive) {
  dispatcher_->on_strand(
      [receive = std::move(receive)](Dispatcher& dispatcher) { receive(dispatcher.statistics()); });
}

}  // namespace square
