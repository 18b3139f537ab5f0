// Links as comma-separated values (RFC 4180): a header, then one directed link a row.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "square/topology.h"
#include "topology/edge_speeds.h"
#include "topology/readers.h"
#include "topology/text.h"

namespace square {
namespace {

// A misspelling of a known column is an error; other columns are other people's notes.
constexpr std::size_t kMisspelling = 2;
constexpr std::size_t kMaxFields = 1'000;
constexpr std::array<std::string_view, 9> kColumns = {
    "from",   "to",         "capacity_mbps",    "throughput_mbps",  "capacity_stddev_mbps",
    "rtt_ms", "latency_ms", "price_usd_per_gb", "egress_usd_per_gb"};

// Cuts the text into rows of fields.
class CsvRows {
 public:
  CsvRows(std::string_view text, std::string_view source_name) : text_(text), source_name_(source_name) {}

  // The next row that is not empty; no fields at the end of the text.
  Result<std::vector<std::string>> next() {
    while (position_ < text_.size()) {
      row_line_ = line_;
      std::vector<std::string> fields;
      for (bool more = true; more;) {
        if (fields.size() == kMaxFields) {
          return resource_exhausted(fmt::format("{}: more than {} fields in a row", place(), kMaxFields));
        }
        SQUARE_ASSIGN_OR_RETURN(fields.emplace_back(), next_field());
        more = position_ < text_.size() && text_[position_] == ',';
        if (more) ++position_;
      }
      skip_line_end();
      if (fields.size() > 1 || !fields.front().empty()) return fields;
    }
    return std::vector<std::string>();
  }

  [[nodiscard]] std::size_t line() const { return row_line_; }
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", source_name_, row_line_); }

 private:
  [[nodiscard]] bool at_field_end() const {
    return position_ >= text_.size() || text_[position_] == ',' || text_[position_] == '\n' ||
           text_[position_] == '\r';
  }

  Result<std::string> next_field() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    if (position_ < text_.size() && text_[position_] == '"') return quoted_field();
    const std::size_t begin = position_;
    while (!at_field_end()) {
      if (text_[position_] == '"') {
        return invalid_argument(
            fmt::format("{}: a quote inside a field: put the whole field in quotes and "
                        "double the quotes in it",
                        place()));
      }
      ++position_;
    }
    return std::string(trim(text_.substr(begin, position_ - begin)));
  }

  Result<std::string> quoted_field() {
    std::string field;
    for (++position_; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '"') {
        if (position_ + 1 >= text_.size() || text_[position_ + 1] != '"') break;
        ++position_;
      }
      if (c == '\n') ++line_;
      field += c;
    }
    if (position_ >= text_.size()) {
      return invalid_argument(fmt::format("{}: a quoted field does not end", place()));
    }
    ++position_;
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    if (!at_field_end()) {
      return invalid_argument(fmt::format("{}: text after the end of a quoted field", place()));
    }
    return field;
  }

  void skip_line_end() {
    if (position_ < text_.size() && text_[position_] == '\r') ++position_;
    if (position_ < text_.size() && text_[position_] == '\n') ++position_;
    ++line_;
  }

  std::string_view text_;
  std::string_view source_name_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  std::size_t row_line_ = 1;
};

// Where the header puts what.
struct Columns {
  std::size_t count = 0;
  std::optional<std::size_t> from, to, capacity, stddev, latency, price;
  SpeedKey capacity_key;    // in which unit that column is
  bool round_trip = false;  // the latency column holds both ways
  std::vector<std::string> names;
};

Status place_column(Columns& columns, std::size_t index, std::string_view name) {
  std::optional<std::size_t>* slot = nullptr;
  if (name == "from") slot = &columns.from;
  if (name == "to") slot = &columns.to;
  if (name == "capacity_stddev_mbps") slot = &columns.stddev;
  if (name == "latency_ms" || name == "rtt_ms") slot = &columns.latency;
  if (name == "price_usd_per_gb" || name == "egress_usd_per_gb") slot = &columns.price;
  const auto speed = speed_key(name);
  if (speed) slot = &columns.capacity;
  if (slot == nullptr) {
    const std::string_view known = nearest(name, kColumns);
    // "from" and "to" are too short for that: half of all words are near them.
    if (name.empty() || known.size() <= 2 * kMisspelling || edit_distance(name, known) > kMisspelling)
      return {};
    return invalid_argument(fmt::format("{}: write \"{}\"", quoted("unknown column", name), known));
  }
  if (slot->has_value()) {
    return invalid_argument(
        fmt::format("columns \"{}\" and \"{}\" say the same", columns.names[**slot], name));
  }
  *slot = index;
  if (speed) columns.capacity_key = *speed;
  if (name == "rtt_ms") columns.round_trip = true;
  return {};
}

Result<Columns> read_header(const std::vector<std::string>& header) {
  Columns columns;
  columns.count = header.size();
  columns.names = header;
  for (std::size_t i = 0; i < header.size(); ++i) {
    SQUARE_RETURN_IF_ERROR(place_column(columns, i, header[i]));
  }
  if (!columns.from || !columns.to) {
    return invalid_argument("the header needs the columns \"from\" and \"to\"");
  }
  return columns;
}

// The number of 0 or above in a cell; nothing for an empty cell or a question mark.
Result<std::optional<double>> read_cell(const std::vector<std::string>& row, const Columns& columns,
                                        std::optional<std::size_t> column) {
  if (!column || row[*column].empty() || row[*column] == "?") return std::optional<double>();
  const auto value = parse_number(row[*column]);
  if (!value || !std::isfinite(*value) || *value < 0) {
    return invalid_argument(fmt::format("{}: must be a finite number of 0 or above, not \"{}\"",
                                        columns.names[*column], excerpt(row[*column])));
  }
  return value;
}

// The capacity in bits per second.
Result<std::optional<double>> read_capacity(const std::vector<std::string>& row, const Columns& columns,
                                            std::size_t line, EdgeSpeeds& speeds) {
  if (!columns.capacity) return std::optional<double>();
  auto read = speeds.read_value(columns.capacity_key, row[*columns.capacity], line);
  if (!read.is_ok()) return read.status().with_context(columns.names[*columns.capacity]);
  return read;
}

// The standard deviation, which may be 0, in bits per second.
Result<std::optional<double>> read_stddev(const std::vector<std::string>& row, const Columns& columns) {
  SQUARE_ASSIGN_OR_RETURN(const auto mbps, read_cell(row, columns, columns.stddev));
  if (!mbps) return mbps;
  const double bps = mbps_to_bps(*mbps);
  if (std::isinf(bps)) {
    return invalid_argument(fmt::format("{}: {} is too large", columns.names[*columns.stddev], *mbps));
  }
  return std::optional(bps);
}

Result<NodeId> node_of(Topology& topology, const std::vector<std::string>& row, const Columns& columns,
                       std::size_t column) {
  if (const auto id = topology.find_node(row[column])) return *id;
  auto added = topology.add_node({.name = row[column]});
  if (!added.is_ok()) return added.status().with_context(columns.names[column]);
  return added;
}

Status add_row(Topology& topology, const std::vector<std::string>& row, const Columns& columns,
               std::size_t line, EdgeSpeeds& speeds) {
  if (row.size() != columns.count) {
    return invalid_argument(fmt::format("{} fields, but the header has {}", row.size(), columns.count));
  }
  SQUARE_ASSIGN_OR_RETURN(const NodeId from, node_of(topology, row, columns, *columns.from));
  SQUARE_ASSIGN_OR_RETURN(const NodeId to, node_of(topology, row, columns, *columns.to));
  SQUARE_ASSIGN_OR_RETURN(const auto capacity_bps, read_capacity(row, columns, line, speeds));
  SQUARE_ASSIGN_OR_RETURN(const auto stddev_bps, read_stddev(row, columns));
  SQUARE_ASSIGN_OR_RETURN(const auto milliseconds, read_cell(row, columns, columns.latency));
  SQUARE_ASSIGN_OR_RETURN(const auto price, read_cell(row, columns, columns.price));
  if (from == to) return {};  // a loop carries nothing
  LinkProperties properties;
  properties.capacity_bps = capacity_bps.value_or(kUnlimited);
  if (milliseconds) properties.latency = from_seconds(*milliseconds / (columns.round_trip ? 2e3 : 1e3));
  properties.price_usd_per_gb = price.value_or(0.0);
  properties.capacity_stddev_bps = stddev_bps.value_or(0.0);
  return topology.add_link(from, to, properties).status();
}

}  // namespace

Result<Topology> read_csv(std::string_view text, std::string_view source_name,
                          const TopologyReadOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(text, plain_text(text, source_name));
  CsvRows rows(text, source_name);
  SQUARE_ASSIGN_OR_RETURN(const auto header, rows.next());
  if (header.empty()) return invalid_argument(fmt::format("{}: the file is empty", source_name));
  const auto columns = read_header(header);
  if (!columns.is_ok()) return columns.status().with_context(rows.place());
  Topology topology;
  EdgeSpeeds speeds(options);
  for (;;) {
    SQUARE_ASSIGN_OR_RETURN(const auto row, rows.next());
    if (row.empty()) break;
    const Status status = add_row(topology, row, *columns, rows.line(), speeds);
    if (!status.is_ok()) return status.with_context(rows.place());
  }
  if (const auto complaint = speeds.complaint()) {
    return invalid_argument(fmt::format("{}:{}: {}: {}", source_name, complaint->place,
                                        columns->names[*columns->capacity], complaint->message));
  }
  return topology;
}

Result<Topology> parse_csv(std::string_view text, std::string_view source_name) {
  return read_csv(text, source_name, {});
}

}  // namespace square
