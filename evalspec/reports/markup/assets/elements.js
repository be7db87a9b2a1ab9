// The only code that creates elements, in reports and pages: texts become text nodes, attributes are set by name.

/** Flatten nested lists of parts, without null, undefined, false and empty texts. */
const present = (parts) => parts.flat(Infinity).filter((part) => part || part === 0);

const SVG = ["svg", "rect"];

function el(name, properties = {}, ...children) {
  const space = SVG.includes(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const element = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Whether the page is laid out for a phone, as in the styles. */
const isPhone = matchMedia("(max-width: 720px)").matches;

const formatCount = (count) => count.toLocaleString("en-US");
const counted = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
