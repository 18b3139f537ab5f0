// Text that comes from people: files, words and their spelling.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square {

// `what "name"`, for messages; a long name is cut, as by excerpt().
std::string quoted(std::string_view what, std::string_view name);
// The beginning of `text`, fit for a message: UTF-8, without control characters, short.
std::string excerpt(std::string_view text);

bool is_utf8(std::string_view text);
// Every byte one character of ISO 8859-1, as UTF-8.
std::string latin1_to_utf8(std::string_view text);
void append_utf8(std::string& text, char32_t character);

// The whole of `text` as a number; a plus sign in front is allowed. Nothing if it is not one.
std::optional<double> parse_number(std::string_view text);

std::string_view trim(std::string_view text);
// With the capital letters of ASCII made small.
std::string lower_case(std::string_view text);

// Insertions, deletions and changes that turn `a` into `b`, letters in any case.
std::size_t edit_distance(std::string_view a, std::string_view b);
// The word of `known` that is nearest to `word`: that goes on after it with an underscore, or else by edits;
// empty if there are none.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// `text` without its byte order mark. Errors: INVALID_ARGUMENT, naming the line, for text
// in UTF-16 and for a zero byte: neither is a file that the readers know.
Result<std::string_view> plain_text(std::string_view text, std::string_view source_name);

// The bytes of a file. Errors: NOT_FOUND; INVALID_ARGUMENT for a folder or an unreadable
// file; RESOURCE_EXHAUSTED past `max_bytes`. Blocks on the file.
Result<std::string> read_text_file(const std::filesystem::path& file, std::size_t max_bytes);

}  // namespace square
