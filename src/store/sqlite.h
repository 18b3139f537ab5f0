// An SQLite file, with errors as Status: the only place that knows SQLite.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "square/clock.h"
#include "square/status.h"
#include "store/sql_value.h"

struct sqlite3;
struct sqlite3_stmt;

namespace square::store {

// One connection. Not thread-safe.
class SqliteFile {
 public:
  // Opens the file or makes it. `busy` is how long a call waits for another process that writes.
  static Result<SqliteFile> open(const std::string& path, Duration busy);
  SqliteFile(SqliteFile&&) noexcept = default;
  SqliteFile& operator=(SqliteFile&&) noexcept = default;

  // A row that a statement gave. Numbers and blobs are what they were put in as.
  class Row {
   public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
    [[nodiscard]] std::int64_t number(int column) const;
    [[nodiscard]] std::string bytes(int column) const;

   private:
    sqlite3_stmt* statement_;
  };

  // Runs one statement, with values in place of its question marks, for each row of its answer. Errors:
  // RESOURCE_EXHAUSTED for a full disk, DATA_LOSS for a damaged file, UNAVAILABLE for any other, each with
  // the path and SQLite's words.
  Status run(std::string_view statement, const std::vector<SqlValue>& values = {},
             const std::function<void(const Row&)>& on_row = nullptr);
  // Several statements without values, separated by semicolons.
  Status run_all(const char* statements);
  // Of the first column of the first row; 0 without one.
  Result<std::int64_t> number(std::string_view statement);
  // Rows that the last statement changed.
  [[nodiscard]] int changes() const;

  // All of it or nothing: `body` between BEGIN IMMEDIATE and COMMIT, undone where either fails.
  Status transact(const std::function<Status()>& body);

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };

  explicit SqliteFile(std::string path) : path_(std::move(path)) {}
  Status error(int code, std::string_view doing) const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace square::store
