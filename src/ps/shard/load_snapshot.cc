// A snapshot as users see it.
#include <utility>

#include "base/check.h"
#include "ps/shard/snapshot_file.h"
#include "ps/status.h"
#include "square/parameter_server.h"

namespace square::ps {
Result<Snapshot> load_snapshot(const std::string& path) {
  SQUARE_ASSIGN_OR_RETURN(const auto file, SnapshotFile::open(path));
  SQUARE_ASSIGN_OR_RETURN(OuterShard::State state, file->read_all());
  const v1::PsSnapshotHeader& header = file->header();
  Snapshot snapshot;
  snapshot.version = header.record().version();
  snapshot.tokens = header.record().tokens();
  snapshot.server = header.shard().server();
  snapshot.first_element = header.shard().begin();
  for (const v1::PsTensor& tensor : header.model().tensors()) {
    snapshot.model.push_back({tensor.name(), tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}});
  }
  for (const v1::PsPushed& pushed : header.record().pushes()) snapshot.pushes.push_back(to_push(pushed));
  snapshot.norm = header.record().norm();
  snapshot.factor = header.record().factor();
  snapshot.hash = file->hash();
  snapshot.parameters = std::move(state.parameters);
  return snapshot;
}

}  // namespace square::ps
