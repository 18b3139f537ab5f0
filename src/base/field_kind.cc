#include "square/field_kind.h"

namespace square {

std::string_view to_string(FieldKind kind) {
  switch (kind) {
    case FieldKind::kGf256: return "gf256";
    case FieldKind::kGf65536: return "gf65536";
    case FieldKind::kFloat32: return "float32";
  }
  return "?";
}

std::optional<FieldKind> field_kind(std::string_view name) {
  for (const FieldKind kind : {FieldKind::kGf256, FieldKind::kGf65536, FieldKind::kFloat32}) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace square
