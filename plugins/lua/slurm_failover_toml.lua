-- Reads TOML, so that settings.toml stays the one place of the site's settings: Slurm's Lua has no
-- reader of its own. Tables, keys, strings, decimal whole numbers, booleans, arrays and inline
-- tables become Lua values; a number or date of another kind becomes { raw = "its text" }.

local M = {}

local ESCAPES = {
	b = "\b", t = "\t", n = "\n", f = "\f", r = "\r", ['"'] = '"', ["\\"] = "\\",
}

local function fail(reader, what)
	local _, line = reader.text:sub(1, reader.at - 1):gsub("\n", "")
	error(("line %d: %s"):format(line + 1, what), 0)
end

-- The capture, or else the whole, of a pattern that matches right here, which is then passed.
local function take(reader, pattern)
	local first, last, capture = reader.text:find("^" .. pattern, reader.at)
	if not first then return nil end
	reader.at = last + 1
	return capture or reader.text:sub(first, last)
end

local function need(reader, pattern, what)
	return take(reader, pattern) or fail(reader, "expected " .. what)
end

local function skip_blanks(reader)
	take(reader, "[ \t]*")
end

local function skip_lines(reader)
	repeat
		skip_blanks(reader)
		take(reader, "#[^\n]*")
	until not take(reader, "\r?\n")
end

local function utf8_of(reader, code)
	if code < 0x80 then return string.char(code) end
	if code > 0x10FFFF then fail(reader, "no such character") end
	local size = code < 0x800 and 2 or code < 0x10000 and 3 or 4
	local bytes = {}
	for i = size, 2, -1 do
		bytes[i] = string.char(0x80 + code % 64)
		code = math.floor(code / 64)
	end
	bytes[1] = string.char(({ [2] = 0xC0, [3] = 0xE0, [4] = 0xF0 })[size] + code)
	return table.concat(bytes)
end

local function read_escape(reader, many_lines)
	if many_lines and take(reader, "[ \t]*\r?\n%s*") then return "" end
	local four = "%x%x%x%x"
	local code = take(reader, "u(" .. four .. ")") or take(reader, "U(" .. four .. four .. ")")
	if code then return utf8_of(reader, tonumber(code, 16)) end
	return ESCAPES[need(reader, '[btnfr"\\]', "a known escape after the backslash")]
end

-- A string with escapes, up to its closing quote or quotes.
local function read_basic(reader, close, many_lines)
	local parts = {}
	while not take(reader, close) do
		if take(reader, "\\") then
			parts[#parts + 1] = read_escape(reader, many_lines)
		else
			local plain = many_lines and '[^"\\]+' or '[^"\\\r\n]+'
			local part = take(reader, plain) or many_lines and take(reader, '"')
			parts[#parts + 1] = part or fail(reader, "a string without its closing quote")
		end
	end
	return table.concat(parts)
end

local function read_many_lines(reader, quote)
	take(reader, "\r?\n")
	local text
	if quote == '"' then
		text = read_basic(reader, '"""', true)
	else
		text = need(reader, "(.-)'''", "''' at the end of the string")
	end
	-- Up to two quotes may stand right before the closing three: they belong to the string.
	return text .. (take(reader, quote .. quote) or take(reader, quote) or "")
end

local function read_string(reader)
	local quote = take(reader, '"""') or take(reader, "'''")
	if quote then return read_many_lines(reader, quote:sub(1, 1)) end
	if take(reader, '"') then return read_basic(reader, '"', false) end
	if take(reader, "'") then return need(reader, "([^'\r\n]*)'", "' at the end of the string") end
	return nil
end

local function read_path(reader)
	local path = {}
	repeat
		skip_blanks(reader)
		path[#path + 1] = take(reader, "[%w_-]+") or read_string(reader) or fail(reader, "expected a key")
		skip_blanks(reader)
	until not take(reader, "%.")
	return path
end

-- The table at the end of a path; of an array of tables it is the newest.
local function descend(reader, from, path, last)
	for i = 1, last do
		if from[path[i]] == nil then from[path[i]] = {} end
		from = from[path[i]]
		if type(from) ~= "table" then fail(reader, path[i] .. " is not a table") end
		if from.is_array then from = from[#from] end
	end
	return from
end

local read_value

local function read_pair(reader, into)
	local path = read_path(reader)
	need(reader, "=", "= after the key")
	skip_blanks(reader)
	descend(reader, into, path, #path - 1)[path[#path]] = read_value(reader)
end

local function read_array(reader)
	local array = {}
	skip_lines(reader)
	while not take(reader, "%]") do
		array[#array + 1] = read_value(reader)
		skip_lines(reader)
		if not take(reader, ",") then
			need(reader, "%]", ", or ] in the array")
			break
		end
		skip_lines(reader)
	end
	return array
end

local function read_inline_table(reader)
	local result = {}
	skip_blanks(reader)
	if take(reader, "}") then return result end
	repeat
		read_pair(reader, result)
		skip_blanks(reader)
	until not take(reader, ",")
	need(reader, "}", ", or } in the inline table")
	return result
end

local function read_bare(reader)
	local date = "%d%d%d%d%-%d%d%-%d%d %d%d:[%d:.+-]*Z?"
	local text = take(reader, date) or need(reader, "[%w+:._-]+", "a value")
	if text == "true" or text == "false" then return text == "true" end
	if text:find("^[+-]?%d[%d_]*$") then return tonumber((text:gsub("[+_]", ""))) end
	return { raw = text }
end

function read_value(reader)
	local text = read_string(reader)
	if text then return text end
	if take(reader, "%[") then return read_array(reader) end
	if take(reader, "{") then return read_inline_table(reader) end
	return read_bare(reader)
end

local function read_header(reader, root)
	local is_array = take(reader, "%[")
	local path = read_path(reader)
	need(reader, is_array and "%]%]" or "%]", "] at the end of the table's name")
	if not is_array then return descend(reader, root, path, #path) end
	local parent = descend(reader, root, path, #path - 1)
	local array = parent[path[#path]] or { is_array = true }
	parent[path[#path]] = array
	array[#array + 1] = {}
	return array[#array]
end

--- The tables in a TOML text. Raises "line N: what is wrong".
function M.read(text)
	local reader = { text = text, at = 1 }
	local root = {}
	local current = root
	skip_lines(reader)
	while reader.at <= #text do
		if take(reader, "%[") then
			current = read_header(reader, root)
		else
			read_pair(reader, current)
		end
		skip_blanks(reader)
		take(reader, "#[^\n]*")
		if reader.at <= #text then need(reader, "\r?\n", "the end of the line") end
		skip_lines(reader)
	end
	return root
end

return M
