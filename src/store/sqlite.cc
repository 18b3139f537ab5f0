#include "store/sqlite.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace square::store {
namespace {

int milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

void SqliteFile::Close::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }

Result<SqliteFile> SqliteFile::open(const std::string& path, Duration busy) {
  SqliteFile file(path);
  // It has grants, which are for nobody else to show; what SQLite puts beside it is as it is.
  if (const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); made >= 0)
    ::close(made);
  sqlite3* connection = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  file.connection_.reset(connection);
  if (code != SQLITE_OK) return file.error(code, "cannot be opened");
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, milliseconds(busy));
  return file;
}

std::int64_t SqliteFile::Row::number(int column) const { return sqlite3_column_int64(statement_, column); }

std::string SqliteFile::Row::bytes(int column) const {
  const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(size));
}

Status SqliteFile::run(std::string_view text, const std::vector<SqlValue>& values,
                       const std::function<void(const Row&)>& on_row) {
  sqlite3_stmt* prepared = nullptr;
  int code =
      sqlite3_prepare_v2(connection_.get(), text.data(), static_cast<int>(text.size()), &prepared, nullptr);
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared, &sqlite3_finalize);
  if (code != SQLITE_OK) return error(code, "cannot be read");
  int place = 0;
  for (const SqlValue& value : values) {
    ++place;
    if (value.bytes) {
      sqlite3_bind_blob64(prepared, place, value.bytes->data(), value.bytes->size(), SQLITE_STATIC);
    } else {
      sqlite3_bind_int64(prepared, place, value.number);
    }
  }
  while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
    if (on_row) on_row(Row(prepared));
  }
  return code == SQLITE_DONE ? Status::ok() : error(code, "cannot be read or written");
}

Status SqliteFile::run_all(const char* statements) {
  const int code = sqlite3_exec(connection_.get(), statements, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status::ok() : error(code, "cannot be read or written");
}

Result<std::int64_t> SqliteFile::number(std::string_view statement) {
  std::optional<std::int64_t> first;
  SQUARE_RETURN_IF_ERROR(run(statement, {}, [&](const Row& row) {
    if (!first) first = row.number(0);
  }));
  return first.value_or(0);
}

int SqliteFile::changes() const { return sqlite3_changes(connection_.get()); }

Status SqliteFile::transact(const std::function<Status()>& body) {
  SQUARE_RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
  Status done = body();
  if (done.is_ok()) done = run("COMMIT");
  // A failed write may have undone all of it already; then there is nothing to undo.
  if (!done.is_ok() && sqlite3_get_autocommit(connection_.get()) == 0) static_cast<void>(run("ROLLBACK"));
  return done;
}

Status SqliteFile::error(int code, std::string_view doing) const {
  const char* const words = connection_ ? sqlite3_errmsg(connection_.get()) : sqlite3_errstr(code);
  const std::string text = fmt::format("the store {} {}: {}", path_, doing, words);
  switch (code & 0xff) {
    case SQLITE_FULL: return resource_exhausted(text + "; make room on its disk");
    case SQLITE_NOTADB: return invalid_argument(text + "; it is not a store, name another file");
    case SQLITE_CORRUPT: return data_loss(text + "; restore a copy, or begin with a new file");
    default: return unavailable(text);
  }
}

}  // namespace square::store
