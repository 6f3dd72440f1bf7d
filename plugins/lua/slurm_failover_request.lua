-- What a job's owner asked for: by `sbatch --failover[=N]`, or by the word `failover` or
-- `failover=N` in the comment. slurm_failover/optin.py reads the same words in the same way.

local M = {}

--- The largest N that anyone may ask for, as in plugins/spank.
M.MAX = 1000

-- How a bare option shows: in the job control environment, in cli_filter, and in Slurm itself.
local BARE = { default = true, set = true, ["(null)"] = true }

local OFF = { off = true, no = true, none = true, ["false"] = true, never = true }

-- A user's text as it may be shown: short, and without terminal escapes.
local function shown(text)
	return (text:sub(1, 40):gsub("%c", "?"))
end

-- The request that a count makes; nil as the count stands for a bare word or option.
local function read_count(count, asked_by)
	if count == nil then return { asked_by = asked_by } end
	local request = { asked_by = asked_by .. "=" .. shown(count) }
	local number = count:match("^%d+$") and tonumber(count)
	if number == 0 or OFF[count:lower()] then
		request.problem = "to submit without failover, leave it out"
	elseif not number then
		request.problem = ("write N as a whole number from 1 to %d, or leave it out"):format(M.MAX)
	elseif number > M.MAX then
		request.problem = ("at most %d failovers can be asked for"):format(M.MAX)
	else
		request.retries = number
	end
	return request
end

-- The comment without the state that slurm-failover shows behind the owner's text.
local function without_mirror(comment)
	return (comment:gsub(" ?%[slurm%-failover: [^%[%]]*%]$", ""))
end

--- The request in a comment: the first word `failover` or `failover=N` between blanks, commas or
-- semicolons; nil if there is none.
function M.in_comment(comment)
	for word in without_mirror(comment or ""):gmatch("[^%s,;]+") do
		if word == "failover" then return read_count(nil, "--comment=failover") end
		local count = word:match("^failover=(.*)$")
		if count then return read_count(count, "--comment=failover") end
	end
	return nil
end

--- The request of a job: `option` is the value of --failover as Slurm hands it on, nil where it
-- was not used, and beats the comment. nil means that nobody asked; else a table with `asked_by`
-- (what the user wrote), `retries` (nil: the site's default) and `problem` (why it is void).
function M.read(option, comment)
	if option == nil then return M.in_comment(comment) end
	return read_count(not BARE[option] and option or nil, "--failover")
end

return M
