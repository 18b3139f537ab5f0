// The snapshots of a server, in a folder that is its alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/net/file_descriptor.h"
#include "ps/shard/snapshot_file.h"

namespace square::ps {

// A version, and which attempt at it.
struct VersionId {
  std::uint64_t version = 0;  // 0: none
  std::uint64_t maker = 0;
  friend auto operator<=>(const VersionId&, const VersionId&) = default;
};
// "version 7 (maker 1f)".
std::string to_string(const VersionId& id);

// Thread-safe.
class Snapshots {
 public:
  // Keeps one from being pruned.
  using Pin = std::shared_ptr<const void>;
  // Files in the folder that are set aside.
  static constexpr std::size_t kMostAside = 16;

  // Makes the folder, removes what was never finished, and reads the heads of what is there; a damaged file
  // is logged, and left alone. Errors: FAILED_PRECONDITION for a folder that another server uses; those of
  // SnapshotWriter. Preconditions: kept >= 2 (SQUARE_CHECK).
  static Result<std::unique_ptr<Snapshots>> open(std::filesystem::path folder, std::size_t kept);

  [[nodiscard]] std::vector<v1::PsHeld> held() const;
  // Of the newest; empty where there is none.
  [[nodiscard]] v1::PsModel model() const;
  [[nodiscard]] bool has(const VersionId& id) const;
  [[nodiscard]] std::filesystem::path path(const VersionId& id) const;

  // One that was written just now.
  void add(const v1::PsSnapshotHeader& header, std::uint64_t hash);
  // Until the pin is gone, that version is not pruned. It need not be there.
  Pin pin(const VersionId& id);
  // Takes all out of the list but the newest ones, and those with pins; the caller removes their files.
  // Those that are set aside count as the oldest.
  [[nodiscard]] std::vector<std::filesystem::path> prune();
  // Removes it from the disk for good. OK where there is none.
  Status remove(const VersionId& id);
  // Takes all later ones out of the list, and those of this version that another maker made. An attempt that
  // never counted is of the same or the next version: its file is removed. Later ones may have counted: their
  // files are set aside, that is renamed. Where `id` is none all are, as the master may not know of them.
  // Errors: RESOURCE_EXHAUSTED beyond kMostAside.
  Status drop_after(const VersionId& id);

 private:
  struct Entry {
    v1::PsRecord record;
    v1::PsModel model;
    std::uint64_t hash = 0;
  };

  Snapshots(std::filesystem::path folder, std::size_t kept, net::FileDescriptor lock)
      : folder_(std::move(folder)), kept_(kept), lock_(std::move(lock)) {}
  void read_folder();
  Status remove_all(const std::vector<VersionId>& ids);
  Status set_aside(const std::vector<VersionId>& ids);

  const std::filesystem::path folder_;
  const std::size_t kept_;
  const net::FileDescriptor lock_;
  mutable std::mutex mutex_;
  std::map<VersionId, Entry> entries_;
  std::map<VersionId, std::weak_ptr<const void>> pins_;
  std::set<std::filesystem::path> aside_;  // the oldest first
};

}  // namespace square::ps
