#include "ps/shard/snapshots.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace square::ps {
namespace {

constexpr std::string_view kLockName = "lock";
constexpr std::string_view kSnapshotSuffix = ".snapshot";
constexpr std::string_view kAsideSuffix = ".snapshot.aside";  // in place of that

// So that names sort as versions do.
std::string snapshot_name(const VersionId& id) {
  return fmt::format("version-{:012d}-{:016x}{}", id.version, id.maker, kSnapshotSuffix);
}

std::filesystem::path aside_path(std::filesystem::path path) { return path.replace_extension(kAsideSuffix); }

Result<net::FileDescriptor> lock_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kLockName;
  constexpr int kMode = 0600;
  net::FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!lock) {
    return unavailable(fmt::format("cannot make {}: {}", path.native(), net::describe_errno(errno)));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) {
    return unavailable(fmt::format("cannot lock {}: {}", path.native(), net::describe_errno(errno)));
  }
  return failed_precondition(fmt::format(
      "another server keeps its snapshots in {}: give each server a folder of its own", folder.native()));
}

}  // namespace

std::string to_string(const VersionId& id) {
  return fmt::format("version {} (maker {:x})", id.version, id.maker);
}

Result<std::unique_ptr<Snapshots>> Snapshots::open(std::filesystem::path folder, std::size_t kept) {
  SQUARE_CHECK(kept >= 2, "a server keeps two snapshots at least");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return unavailable(fmt::format("cannot make {}: {}", folder.native(), error.message()));
  SQUARE_ASSIGN_OR_RETURN(net::FileDescriptor lock, lock_folder(folder));
  std::unique_ptr<Snapshots> snapshots(new Snapshots(std::move(folder), kept, std::move(lock)));
  snapshots->read_folder();
  // What a crash has left may be known to the folder in memory alone.
  SQUARE_RETURN_IF_ERROR(sync_folder(snapshots->folder_));
  return snapshots;
}

void Snapshots::read_folder() {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    paths.push_back(at->path());
  }
  if (error) log(LogLevel::kError, "ps", "cannot read {}: {}", folder_.native(), error.message());
  for (const std::filesystem::path& path : paths) {
    const std::string name = path.filename().native();
    if (name.ends_with(kUnfinishedSuffix)) ::unlink(path.c_str());
    if (name.ends_with(kAsideSuffix)) aside_.insert(path);
    if (!name.ends_with(kSnapshotSuffix)) continue;
    const auto file = SnapshotFile::open(path);
    if (!file.is_ok()) {
      log(LogLevel::kWarning, "ps", "left out: {}", file.status().message());
      continue;
    }
    const v1::PsSnapshotHeader& header = (*file)->header();
    const VersionId id{header.record().version(), header.record().maker()};
    if (name == snapshot_name(id)) {
      add(header, (*file)->hash());
    } else {
      log(LogLevel::kWarning, "ps", "left out: {} has {}", path.native(), to_string(id));
    }
  }
}

std::vector<v1::PsHeld> Snapshots::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<v1::PsHeld> all;
  for (const auto& [id, entry] : entries_) {
    v1::PsHeld& held = all.emplace_back();
    *held.mutable_record() = entry.record;
    held.set_hash(entry.hash);
  }
  return all;
}

v1::PsModel Snapshots::model() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty() ? v1::PsModel() : entries_.rbegin()->second.model;
}

bool Snapshots::has(const VersionId& id) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(id);
}

std::filesystem::path Snapshots::path(const VersionId& id) const { return folder_ / snapshot_name(id); }

void Snapshots::add(const v1::PsSnapshotHeader& header, std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  entries_[{header.record().version(), header.record().maker()}] = {header.record(), header.model(), hash};
}

Snapshots::Pin Snapshots::pin(const VersionId& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(pins_, [](const auto& entry) { return entry.second.expired(); });
  if (Pin pin = pins_[id].lock()) return pin;
  const Pin pin = std::make_shared<int>();
  pins_[id] = pin;
  return pin;
}

std::vector<std::filesystem::path> Snapshots::prune() {
  const std::lock_guard lock(mutex_);
  std::vector<std::filesystem::path> gone;
  while (!aside_.empty() && entries_.size() + aside_.size() > kept_) {
    gone.push_back(*aside_.begin());
    aside_.erase(aside_.begin());
  }
  std::size_t surplus = entries_.size() - std::min(entries_.size(), kept_);
  for (auto entry = entries_.begin(); surplus > 0; --surplus) {
    const auto pin = pins_.find(entry->first);
    if (pin != pins_.end() && !pin->second.expired()) {
      ++entry;
    } else {
      gone.push_back(path(entry->first));
      entry = entries_.erase(entry);
    }
  }
  return gone;
}

Status Snapshots::remove(const VersionId& id) { return remove_all({id}); }

Status Snapshots::drop_after(const VersionId& id) {
  std::vector<VersionId> attempts;
  std::vector<VersionId> counted;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [other, entry] : entries_) {
      if (other.version < id.version || other == id) continue;
      const bool is_attempt = id.version != 0 && other.version <= id.version + 1;
      (is_attempt ? attempts : counted).push_back(other);
    }
  }
  SQUARE_RETURN_IF_ERROR(set_aside(counted));
  return remove_all(attempts);
}

Status Snapshots::set_aside(const std::vector<VersionId>& ids) {
  if (ids.empty()) return {};
  {
    const std::lock_guard lock(mutex_);
    if (aside_.size() + ids.size() > kMostAside) {
      return resource_exhausted(
          fmt::format("{} snapshots are set aside in {}, and {} more would be: at most {} may be; remove the "
                      "files that end with {} and are not needed, and start the server again",
                      aside_.size(), folder_.native(), ids.size(), kMostAside, kAsideSuffix));
    }
  }
  for (const VersionId& id : ids) {
    const std::filesystem::path to = aside_path(path(id));
    if (::rename(path(id).c_str(), to.c_str()) != 0 && errno != ENOENT) {
      return unavailable(fmt::format("cannot rename {}: {}", path(id).native(), net::describe_errno(errno)));
    }
    log(LogLevel::kWarning, "ps", "{} is set aside: {}", to_string(id), to.native());
    const std::lock_guard lock(mutex_);
    entries_.erase(id);
    aside_.insert(to);
  }
  return sync_folder(folder_);
}

Status Snapshots::remove_all(const std::vector<VersionId>& ids) {
  for (const VersionId& id : ids) {
    if (::unlink(path(id).c_str()) != 0 && errno != ENOENT) {
      return unavailable(fmt::format("cannot remove {}: {}", path(id).native(), net::describe_errno(errno)));
    }
    const std::lock_guard lock(mutex_);
    entries_.erase(id);
  }
  return ids.empty() ? Status() : sync_folder(folder_);
}

}  // namespace square::ps
