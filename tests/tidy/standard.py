"""What a source uses of the standard library has to be included, by itself or by a header of ours that it includes.

The compiler does not see to it: most of the library is parsed once for all sources (`sluice_parsed_once` in
CMakeLists.txt), and one header of the library brings others by chance.
"""
import re

from cpp_text import code_of, own_headers

# Names, and the headers that give them: the first is what a finding asks for.
GIVEN_BY = {
    "sort stable_sort find find_if find_if_not find_first_of any_of all_of none_of count count_if copy copy_n copy_if "
    "copy_backward fill fill_n transform max min minmax clamp max_element min_element minmax_element lower_bound "
    "upper_bound equal_range binary_search reverse rotate unique remove_if replace partition stable_partition "
    "nth_element partial_sort equal mismatch search generate shuffle set_difference set_intersection set_union "
    "includes merge lexicographical_compare is_sorted for_each adjacent_find swap_ranges push_heap pop_heap make_heap "
    "iter_swap": ["algorithm"],
    "array to_array": ["array"],
    r"atomic\w* memory_order\w*": ["atomic"],
    "bit_cast bit_ceil bit_floor bit_width countr_zero countl_zero popcount has_single_bit rotl rotr endian": ["bit"],
    "from_chars to_chars": ["charconv"],
    "chrono": ["chrono"],
    "strong_ordering weak_ordering partial_ordering": ["compare"],
    "same_as integral convertible_to floating_point invocable derived_from": ["concepts"],
    r"u?int(?:_fast|_least)?(?:8|16|32|64)_t u?int(?:ptr|max)_t": ["cstdint"],
    "snprintf printf fprintf fopen fclose fread fwrite FILE fflush fputs fputc puts sscanf": ["cstdio"],
    r"getenv exit strto\w+ free malloc aligned_alloc _Exit": ["cstdlib"],
    "abs": ["cmath", "cstdlib"],
    "memcpy memmove memset memcmp memchr strlen strcmp strncmp strerror strchr strstr": ["cstring"],
    "time_t gmtime localtime strftime": ["ctime"],
    "exception exception_ptr current_exception rethrow_exception terminate make_exception_ptr": ["exception"],
    "function less greater plus invoke ref cref equal_to multiplies reference_wrapper": ["functional"],
    "back_inserter next prev advance inserter istreambuf_iterator make_move_iterator reverse_iterator": ["iterator"],
    "size ssize": ["iterator", "array", "string", "string_view", "span", "vector"],
    "numeric_limits": ["limits"],
    "map multimap": ["map"],
    r"unique_ptr shared_ptr weak_ptr make_unique\w* make_shared\w* enable_shared_from_this addressof construct_at "
    r"destroy_at static_pointer_cast dynamic_pointer_cast uninitialized_\w+": ["memory"],
    "mutex lock_guard unique_lock scoped_lock once_flag call_once": ["mutex"],
    "bad_alloc nothrow launder align_val_t": ["new"],
    "optional nullopt make_optional": ["optional"],
    "set multiset": ["set"],
    "span as_bytes as_writable_bytes": ["span"],
    "runtime_error logic_error invalid_argument out_of_range length_error": ["stdexcept"],
    "string to_string stoi stol stoul stoull stod stof char_traits": ["string"],
    "string_view": ["string_view", "string"],
    "error_code errc system_error generic_category": ["system_error", "charconv", "filesystem"],
    "tuple tie make_tuple ignore": ["tuple"],
    r"is_\w+_v is_same decay_t remove_\w+_t conditional_t underlying_type_t true_type false_type invoke_result_t "
    "common_type_t make_signed_t make_unsigned_t void_t type_identity_t": ["type_traits"],
    "unordered_map unordered_multimap": ["unordered_map"],
    r"move forward exchange pair make_pair swap cmp_\w+ in_range integer_sequence index_sequence make_index_sequence "
    "as_const declval unreachable in_place in_place_type": ["utility"],
    "variant get_if visit holds_alternative monostate": ["variant"],
    "vector": ["vector"],
}
USED = [(re.compile(rf"\bstd::(?:ranges::)?({'|'.join(names.split())})\b"), headers)
        for names, headers in GIVEN_BY.items()]


def not_included(texts):
    """`texts`: of each source and header, by path from the root."""
    reached = {}

    def headers_of(path):
        if path in reached:
            return reached[path]
        reached[path] = own = set(re.findall(r"^#include <([^>]+)>", texts[path], re.M))  # a circle ends here
        for other in own_headers(path, texts[path], texts.__contains__):
            own |= headers_of(other)
        return own

    for path, text in texts.items():
        code, there = code_of(text), headers_of(path)
        for used, headers in USED:
            found = used.search(code)
            if found and there.isdisjoint(headers):
                line = code.count("\n", 0, found.start()) + 1
                yield f"{path}:{line}: {found[0]} needs #include <{headers[0]}>"
