# SPDX-License-Identifier: Apache-2.0
#
# usage: awk -v version=VERSION -v folder=FOLDER -f tools/manual.awk HEADER...
#
# Writes the manual's section 3 from the public headers: a page for each header (its first comment, then what it
# declares), and one for each block of declarations, where a block is what stands between two empty lines. The page has
# the name of the block's first function or type; the others get a page that leads there (.so). A block whose comment
# begins with "The same" belongs to the block before it.
#
# What a comment has to be: the first sentence, up to a full stop, colon or semicolon, is the NAME line; "Errors: ..."
# up to the paragraph's end is moved to ERRORS, "Returns ..." up to the sentence's end to RETURN VALUE. Lines that are
# indented are shown as they are. A declaration without a comment ends the run with an error that names it.

function fail(text) {
    print FILENAME ":" FNR ": " text >"/dev/stderr"
    failed = 1
    exit 1
}

# ---- reading ----

# The text of a comment line without the comment's marks.
function comment_text(line) {
    sub(/^\/\* ?/, "", line)
    sub(/ *\*\/ *$/, "", line)
    if (in_comment)
        sub(/^ \* ?/, "", line)
    return line
}

# A page for the block that is being read, or the one before it.
function open_page(text) {
    if (text ~ /^The same[ ,]/ && pages && page_header[pages] == header) {
        page = pages
        return
    }
    page = ++pages
    page_header[page] = header
    section_pages[header, section] = section_pages[header, section] " " page
}

# A comment begins what is declared behind it: one entry of the page.
function open_entry(text) {
    if (!page)
        open_page(text)
    entry = ++entries[page]
    comment[page, entry] = text
}

function add_name(name) {
    names[page] = names[page] (names[page] == "" ? "" : " ") name
    entry_names[page, entry] = entry_names[page, entry] " " name
    if (!(name in page_of))
        page_of[name] = page
}

# What a declaration declares: a function, a type of functions, or a struct or enum with its members.
function declared_name(text) {
    if (match(text, /\(\*halay_[a-z0-9_]+\)/))
        return substr(text, RSTART + 2, RLENGTH - 3)
    if (text ~ /^(struct|enum) halay_[a-z0-9_]+ *\{/) {
        split(text, words, /[ {]+/)
        return words[2]
    }
    if (match(text, /halay_[a-z0-9_]+\(/))
        return substr(text, RSTART, RLENGTH - 1)
    return ""
}

# A whole declaration has been read.
function declare(text, behind,   name, type) {
    name = declared_name(text)
    if (name == "") { # handles and numbers
        plain[header] = plain[header] text (behind == "" ? "" : " /* " behind " */") "\n"
        return
    }
    if (!entry && behind == "")
        fail("'" name "' has no comment")
    if (!entry)
        open_entry("")
    add_name(name)
    if (text ~ /^(struct|enum) [a-z0-9_]+ *\{/) {
        code[page] = code[page] text "\n\n"
        return
    }
    prototypes[page] = prototypes[page] text "\n"
    if (text ~ /^typedef/)
        return
    is_function[name] = 1
    type = text
    sub(/halay_[a-z0-9_]+\(.*/, "", type)
    returns[name] = type ~ /enum halay_status $/ ? "status" : type ~ /^void $/ ? "nothing" : "value"
    if (behind != "")
        said[name] = behind
}

function end_block() {
    if (page && names[page] == "" && comment[page, 1] != "") { # a comment that stands by itself
        free_text[header, section] = free_text[header, section] comment[page, 1] "\n\n"
        delete comment[page, 1]
        entries[page] = 0
        sub(" " page "$", "", section_pages[header, section])
        pages--
    }
    page = entry = 0
}

FNR == 1 {
    header = FILENAME
    sub(/.*\//, "", header)
    headers[++header_count] = header
    sections[header] = 1
    section = 1
    is_top = 1
    in_comment = in_body = page = entry = 0
    declaration = ""
}

/^#/ { continued = /\\$/; next }
continued { continued = /\\$/; next }
/^extern "C"/ || (/^}$/ && !in_body && declaration == "") { next }

in_body { # of an inline function
    if (/^}/)
        in_body = 0
    next
}

in_comment {
    text = comment_text($0)
    if (is_top)
        top[header] = top[header] text "\n"
    else
        comment[page, entry] = comment[page, entry] text "\n"
    if (/\*\/ *$/) {
        in_comment = 0
        if (is_top)
            is_top = 0
    }
    next
}

declaration == "" && /^\/\* -+ .* -+ \*\/$/ {
    end_block()
    section = ++sections[header]
    section_title[header, section] = $0
    gsub(/^\/\* -+ | -+ \*\/$/, "", section_title[header, section])
    next
}

declaration == "" && /^\/\*/ {
    text = comment_text($0)
    in_comment = !/\*\/ *$/
    if (is_top)
        next
    if (text == "" && in_comment) { # the text begins in the next line
        getline
        text = comment_text($0)
        in_comment = !/\*\/ *$/
    }
    open_entry(text "\n")
    next
}

declaration == "" && /^$/ { end_block(); next }

{
    line = $0
    behind = ""
    if (declaration == "" && line ~ /;.*\/\*.*\*\/ *$/ && line !~ /^(struct|enum).*\{/) {
        behind = line
        sub(/^[^;]*; *\/\* /, "", behind)
        sub(/ *\*\/ *$/, "", behind)
        sub(/; *\/\*.*/, ";", line)
    }
    if (declaration == "") {
        dedent = line ~ /^HALAY_API / ? 10 : line ~ /^static inline / ? 14 : 0
        sub(/^(HALAY_API|static inline) /, "", line)
    } else if (dedent) {
        match(line, /^ */)
        line = substr(line, (RLENGTH < dedent ? RLENGTH : dedent) + 1)
    }
    declaration = declaration (declaration == "" ? "" : "\n") line
    if (dedent == 14 && line ~ /^\{/) {
        sub(/\n\{$/, ";", declaration)
        in_body = 1
    } else if (!(line ~ /;$/ && (declaration !~ /\{/ || line ~ /\};$/)))
        next
    declare(declaration, behind)
    declaration = ""
}

# ---- writing ----

function escaped(text) {
    gsub(/\\/, "\\e", text)
    return text
}

# As it is, in type of one width.
function verbatim(text) {
    text = escaped(text)
    gsub(/-/, "\\-", text)
    sub(/\n+$/, "", text)
    gsub(/\n[.]/, "\n\\\\\\&.", text)
    return ".EX\n" text "\n.EE\n"
}

# Words of the project in bold, with the section where they have a page; `words` and *words* as they are meant.
function dressed(text,   out, word) {
    text = escaped(text)
    gsub(/--/, "\\-\\-", text)
    while (match(text, /halay[a-z0-9_]*\.h|halay_[a-z0-9_]+|HALAY_[A-Z0-9_]+|`[^`]+`|\*[a-z-]+\*/)) {
        out = out substr(text, 1, RSTART - 1)
        word = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (word in page_of || word ~ /\.h$/) {
            if (word in page_of && page_of[word] == current || word == current_header)
                out = out "\\fB" word "\\fP" (word in is_function ? "()" : "")
            else {
                out = out "\\fB" word "\\fP(3)"
                also[word] = 1
            }
        } else if (word ~ /^`/)
            out = out "\\fB" substr(word, 2, length(word) - 2) "\\fP"
        else if (word ~ /^\*/)
            out = out "\\fI" substr(word, 2, length(word) - 2) "\\fP"
        else {
            out = out "\\fB" word "\\fP"
            if (word in meaning)
                used[word] = 1
        }
    }
    return out text
}

# One line of running text: never taken for a request.
function running(text) {
    text = dressed(text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text "\n"
}

# A comment's paragraphs, joined and dressed; what is indented as it is. With titles "Word." at the beginning is a
# heading.
function paragraphs(text, with_titles,   lines, count, i, out, joined, shown, line) {
    count = split(text "\n", lines, "\n")
    for (i = 1; i <= count; i++) {
        line = lines[i]
        if (line ~ /^  / && joined == "" || line ~ /^   /) {
            out = out flushed(joined, with_titles)
            joined = ""
            shown = shown line "\n"
            continue
        }
        if (shown != "") {
            out = out ".PP\n" verbatim(shown)
            shown = ""
        }
        if (line == "") {
            out = out flushed(joined, with_titles)
            joined = ""
        } else
            joined = joined (joined == "" ? "" : " ") line
    }
    return out
}

function flushed(text, with_titles,   out) {
    if (text == "")
        return ""
    out = ".PP\n"
    if (with_titles && match(text, /^[A-Z][a-z_]*( [a-z_]+)*\. /) && RLENGTH < 30) {
        out = ".SS " substr(text, 1, RLENGTH - 2) "\n"
        text = substr(text, RLENGTH + 1)
    }
    return out running(text)
}

# The sentence that a text begins with, up to a full stop, colon or semicolon, as the NAME line has it.
function brief(text) {
    gsub(/\n/, " ", text)
    if (match(text, /[.:;?]( |$)| \(/))
        text = substr(text, 1, RSTART - 1)
    gsub(/`/, "", text)
    gsub(/-/, "\\-", text)
    return text ~ /^[A-Z][a-z ]/ ? tolower(substr(text, 1, 1)) substr(text, 2) : text
}

# Take what begins with the word out of a comment: up to the paragraph's end, or to the sentence's. Sets taken.
function take(text, word, whole_paragraph,   place, rest, end) {
    taken = ""
    if (!match(text, "(^|[ \n])" word))
        return text
    place = RSTART
    rest = substr(text, place)
    if (whole_paragraph)
        end = match(rest, /\n\n/) ? RSTART : length(rest) + 1
    else
        end = match(rest, /[.]( |\n|$)/) ? RSTART + 1 : length(rest) + 1
    taken = substr(rest, 1, end - 1)
    sub("^[ \n]*", "", taken)
    return substr(text, 1, place - 1) substr(rest, end)
}

function title(name) {
    return ".\\\" SPDX-License-Identifier: Apache-2.0\n" \
        ".TH " toupper(name) " 3 \"\" \"halay " version "\" \"halay\"\n.nh\n.ad l\n"
}

# Parameters in italics, the rest in bold.
function prototype(text,   out, word) {
    text = escaped(text)
    while (match(text, /[a-z_0-9]+[,)]/)) {
        word = substr(text, RSTART, RLENGTH - 1)
        out = out substr(text, 1, RSTART - 1) (word == "void" ? word : "\\fP\\fI" word "\\fP\\fB")
        text = substr(text, RSTART + RLENGTH - 1)
        if (match(text, /^[,)]/)) {
            out = out substr(text, 1, 1)
            text = substr(text, 2)
        }
    }
    out = "\\fB" out text
    sub(/\n$/, "", out)
    gsub(/\n/, "\\fP\n\\fB", out)
    return out "\\fP\n"
}

# "halay_a()" for one, "halay_a() and halay_b()" for more.
function call_list(list,   words, count, i, out) {
    count = split(list, words, " ")
    for (i = 1; i <= count; i++)
        out = out (i == 1 ? "" : i == count ? " and " : ", ") "\\fB" words[i] "\\fP()"
    return out
}

# What a function that gives no status returns.
function returned(name, text) {
    if (name in said)
        text = said[name] "."
    else if (taken != "")
        text = substr(taken, length("Returns ") + 1)
    gsub(/\n/, " ", text)
    if (match(text, /[.]( |$)/))
        text = substr(text, 1, RSTART)
    return toupper(substr(text, 1, 1)) substr(text, 2)
}

# One entry's part of DESCRIPTION; what belongs to RETURN VALUE and ERRORS is added to return_text and error_text.
function describe(i,   text, list, count, k, heading) {
    text = take(comment[current, i], "Errors[:.] ", 1)
    if (taken != "") {
        sub(/^Errors[:.] /, "", taken)
        error_text = error_text paragraphs(toupper(substr(taken, 1, 1)) substr(taken, 2), 0)
    }
    text = take(text, "Returns ", 0)
    count = split(entry_names[current, i], list, " ")
    for (k = 1; k <= count; k++) {
        if (!(list[k] in is_function))
            continue
        heading = heading (heading == "" ? "" : ", ") list[k]
        if (returns[list[k]] == "status")
            status_calls = status_calls " " list[k]
        if (returns[list[k]] == "value")
            return_text = return_text ".TP\n\\fB" list[k] "\\fP()\n" running(returned(list[k], text))
    }
    text = paragraphs(text, 0)
    if (entries[current] == 1 || heading == "")
        return text
    sub(/^[.]PP\n/, "", text)
    return ".SS " heading "\n" text
}

# The statuses that the page names, with what they mean.
function status_table(   i, out) {
    for (i = 1; i <= status_count; i++)
        if (statuses[i] in used)
            out = out ".TP\n\\fB" statuses[i] "\\fP\n" running(meaning[statuses[i]])
    return out
}

function see_also(   i, name, out, count, list) {
    also[current_header] = 1
    for (name in also)
        list[++count] = name
    sort(list, count)
    for (i = 1; i <= count; i++)
        out = out ".BR " list[i] " (3)" (i < count ? "," : "") "\n"
    return ".SH SEE ALSO\n" out
}

function sort(list, count,   i, k, word) {
    for (i = 2; i <= count; i++) {
        word = list[i]
        for (k = i - 1; k > 0 && list[k] > word; k--)
            list[k + 1] = list[k]
        list[k + 1] = word
    }
}

function begin_page(name, of_header) {
    current_header = of_header
    split("", also)
    split("", used)
    return_text = error_text = status_calls = ""
}

function write_page(page_number,   list, count, i, first, file, out, text) {
    current = page_number
    begin_page("", page_header[current])
    count = split(names[current], list, " ")
    first = list[1]
    file = folder "/" first ".3"
    brief_of[first] = brief(comment[current, 1])
    out = title(first) ".SH NAME\n"
    for (i = 1; i <= count; i++)
        out = out list[i] (i < count ? ", " : " \\- " brief_of[first] "\n")
    out = out ".SH SYNOPSIS\n.nf\n.B #include <" current_header ">\n.PP\n" prototype(prototypes[current]) ".fi\n"
    if (prototypes[current] == "")
        out = title(first) ".SH NAME\n" first " \\- " brief_of[first] "\n" \
            ".SH SYNOPSIS\n.nf\n.B #include <" current_header ">\n.fi\n"
    if (code[current] != "")
        out = out ".PP\n" verbatim(code[current])
    for (i = 1; i <= entries[current]; i++)
        text = text describe(i)
    sub(/^[.]PP\n/, "", text)
    out = out ".SH DESCRIPTION\n" text
    if (status_calls != "")
        return_text = return_text ".PP\n" call_list(status_calls) " return\n\\fBHALAY_OK\\fP (0)" \
            (("HALAY_IN_PROGRESS" in used) ? ", \\fBHALAY_IN_PROGRESS\\fP" : "") " or an error.\n"
    sub(/^[.]PP\n/, "", return_text)
    if (return_text != "")
        out = out ".SH RETURN VALUE\n" return_text
    if (status_calls != "") {
        text = error_text status_table() ".PP\n\\fBhalay_status\\fP(3) lists all that there are.\n"
        sub(/^[.]PP\n/, "", text)
        also["halay_status"] = 1
        out = out ".SH ERRORS\n" text
    }
    printf "%s%s", out, see_also() >file
    close(file)
    for (i = 2; i <= count; i++) {
        printf ".so man3/%s.3\n", first >(folder "/" list[i] ".3")
        close(folder "/" list[i] ".3")
    }
}

# A header's own page: concepts, then what it declares by section.
function write_header(of_header,   out, text, i, k, count, list, words) {
    current = 0
    begin_page("", of_header)
    text = top[of_header]
    sub(/^SPDX[^\n]*\n/, "", text)
    sub(/^\n*halay: /, "", text)
    sub(/^\n+/, "", text)
    out = title(of_header) ".SH NAME\n" of_header " \\- " brief(text) "\n" \
        ".SH SYNOPSIS\n.nf\n.B #include <" of_header ">\n.fi\n"
    if (plain[of_header] != "")
        out = out ".PP\n" verbatim(plain[of_header])
    text = paragraphs(text, 1)
    sub(/^[.]PP\n/, "", text)
    out = out ".SH DESCRIPTION\n" text ".SH CONTENTS\n"
    for (i = 1; i <= sections[of_header]; i++) {
        count = split(section_pages[of_header, i], list, " ")
        if (!count)
            continue
        if ((of_header, i) in section_title)
            out = out ".SS " section_title[of_header, i] "\n"
        text = paragraphs(free_text[of_header, i], 0)
        sub(/^[.]PP\n/, "", text)
        out = out text
        for (k = 1; k <= count; k++) {
            split(names[list[k]], words, " ")
            out = out ".TP\n\\fB" words[1] "\\fP(3)\n" brief_of[words[1]] "\n"
        }
    }
    printf "%s%s", out, see_also() >(folder "/" of_header ".3")
    close(folder "/" of_header ".3")
}

# The meaning of each status, from the comments of its list.
function read_statuses(text,   lines, count, i, name, words) {
    count = split(text, lines, "\n")
    for (i = 1; i <= count; i++) {
        if (!match(lines[i], /HALAY_[A-Z_]+/))
            continue
        name = substr(lines[i], RSTART, RLENGTH)
        statuses[++status_count] = name
        meaning[name] = ""
        if (match(lines[i], /\/\* .* \*\//)) {
            words = substr(lines[i], RSTART + 3, RLENGTH - 6)
            meaning[name] = toupper(substr(words, 1, 1)) substr(words, 2) "."
        }
    }
}

END {
    if (failed)
        exit 1
    read_statuses(code[page_of["halay_status"]])
    for (number = 1; number <= pages; number++)
        write_page(number)
    for (number = 1; number <= header_count; number++)
        write_header(headers[number])
}
