#include "square/data_plane.h"

#include "base/check.h"
#include "node/core.h"

namespace square {

DataPlane::DataPlane(DataPlaneOptions options, const Clock& clock, Transport& transport, Executor& executor)
    : core_(std::make_unique<Core>(std::move(options), clock, transport, executor)) {}

DataPlane::~DataPlane() = default;

const std::string& DataPlane::name() const { return core_->context().options.name; }

Status DataPlane::start() {
  const DataPlaneOptions& options = core_->context().options;
  if (options.name.empty()) return invalid_argument("a node needs a name");
  if (options.window_bytes < kMinWindowBytes) {
    return invalid_argument("window_bytes of node \"" + options.name + "\" is below " +
                            std::to_string(kMinWindowBytes));
  }
  return core_->context().transport.start(*core_);
}

void DataPlane::stop(std::function<void()> stopped) {
  core_->on_strand([stopped = std::move(stopped)](Core& core) { core.stop(stopped); });
}

void DataPlane::set_address(std::string peer, std::string address) {
  core_->on_strand([peer = std::move(peer), address = std::move(address)](Core& core) {
    core.set_address(peer, address);
  });
}

void DataPlane::install_plan(std::shared_ptr<const Plan> plan, std::function<void(Epoch)> installed) {
  core_->on_strand([plan = std::move(plan), installed = std::move(installed)](Core& core) {
    core.install_plan(plan, installed);
  });
}

void DataPlane::activate_plan(Epoch epoch) {
  core_->on_strand([epoch](Core& core) { core.activate_plan(epoch); });
}

void DataPlane::set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) {
  core_->on_strand([collective, group = std::move(group), ranks = std::move(ranks)](Core& core) {
    core.set_members(collective, group, ranks);
  });
}

void DataPlane::post(MemberOperation operation) {
  core_->on_strand([operation = std::move(operation)](Core& core) { core.post(operation); });
}

void DataPlane::cancel(CollectiveId collective, OperationId operation) {
  core_->on_strand([key = OperationKey{collective, operation}](Core& core) { core.cancel(key); });
}

void DataPlane::fail(CollectiveId collective, OperationId operation, Status cause) {
  core_->on_strand([key = OperationKey{collective, operation}, cause = std::move(cause)](Core& core) {
    core.fail(key, cause);
  });
}

void DataPlane::watch(CollectiveId collective, OperationId operation, Duration timeout,
                      std::function<void(Status)> arrived) {
  core_->on_strand([key = OperationKey{collective, operation}, timeout,
                    arrived = std::move(arrived)](Core& core) { core.watch(key, timeout, arrived); });
}

void DataPlane::metrics(std::function<void(NodeMetrics)> receive) {
  core_->on_strand([receive = std::move(receive)](Core& core) { receive(core.metrics()); });
}

void DataPlane::statistics(std::function<void(NodeStatistics)> receive) {
  core_->on_strand([receive = std::move(receive)](Core& core) { receive(core.context().statistics); });
}

}  // namespace square
