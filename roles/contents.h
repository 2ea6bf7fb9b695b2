// What tensors and numbers are that pass between roles, where type and shape do not tell: so that
// `validate` refuses rows of a picture where rows of text are meant. They are read in messages.
#pragma once

namespace sluice::contents {

inline constexpr char text_rows[] = "rows of text";
inline constexpr char picture_rows[] = "rows of a picture";
inline constexpr char latents[] = "a picture's latents";
inline constexpr char drawing_start[] = "the beginning of a drawing";
inline constexpr char prefix[] = "the place of what was read";

}  // namespace sluice::contents
